"""Words of Taiwan and Hong Kong and those of the mainland, which differ in more than their characters."""

import re
from collections.abc import Iterator
from typing import Final

from pipeline.keyword.rewritings import Rewriting

# In simplified characters, as `terms.fold` leaves them. Left of the sign the word of Taiwan, right those of the mainland.
_PAIRS: Final = (
    "视窗=窗口 开启=打开 电脑=计算机 当机=死机 储存=保存 贴上=粘贴 档名=文件名 部落格=博客 线上=在线 "
    "连结=链接 宽频=宽带 模组=模块 函式=函数 变数=变量 阵列=数组 回圈=循环 执行绪=线程 除错=调试 "
    "原始码=源代码 作业系统=操作系统 位元组=字节 智慧型手机=智能手机 软体=软件 硬体=硬件 韧体=固件 网路=网络 "
    "网际网路=互联网 连线=连接 程式=程序 伺服器=服务器 滑鼠=鼠标 萤幕=屏幕 列印=打印 印表机=打印机 帐号=账号 "
    "登入=登录 登出=退出 记忆体=内存 硬碟=硬盘 光碟=光盘 随身碟=u盘 简讯=短信 行动电话=手机 计程车=出租车 "
    "捷运=地铁 公车=公交车 脚踏车=自行车 预设=默认 搜寻=搜索 介面=界面 资料库=数据库 演算法=算法 专案=项目 "
    "使用者=用户 凤梨=菠萝 马铃薯=土豆 原子笔=圆珠笔 幼稚园=幼儿园 雷射=激光 奈米=纳米 数位=数字 列车长=车长 "
    "冷气=空调 解析度=分辨率 频宽=带宽 人工智慧=人工智能 机率=概率 雪柜=冰箱 的士=出租车 巴士=公交车 "
    "打车=出租车 自行车=单车"
)
# Words that the mainland has too, with another meaning.
_UNSURE: Final = (
    "资讯=信息 资料=数据 档案=文件 影片=视频 讯息=消息 讯息=信息 品质=质量 设定=设置 机车=摩托车 回覆=回复 便当=盒饭"
)


def _others() -> dict[str, dict[str, bool]]:
    others: dict[str, dict[str, bool]] = {}
    for pairs, is_sure in ((_PAIRS, True), (_UNSURE, False)):
        for pair in pairs.split():
            first, last = pair.split("=")
            others.setdefault(first, {})[last] = is_sure
            others.setdefault(last, {})[first] = is_sure
    return others


_OTHERS: Final = _others()
_HAN: Final = re.compile("[\u4e00-\u9fff]")
_WORD: Final = re.compile("|".join(sorted(_OTHERS, key=len, reverse=True)))


def regional_words(folded: str) -> Iterator[Rewriting]:
    """Yield the words of a folded query (`terms.fold`) that another region has other words for: 网路 as 网络 and back. With the
    character behind it a word is proposed once more, since the two are a bigram."""
    for match in _WORD.finditer(folded):
        behind = folded[match.end() : match.end() + 1]
        for is_sure in (True, False):
            if texts := tuple(other for other, sure in _OTHERS[match[0]].items() if sure is is_sure):
                yield Rewriting(match[0], texts, is_sure=is_sure)
                if _HAN.fullmatch(behind):
                    yield Rewriting(match[0] + behind, tuple(f"{text}{behind}" for text in texts), is_sure=is_sure)
