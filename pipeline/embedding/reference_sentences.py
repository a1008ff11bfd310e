"""Sentences about nothing that a query asks, in two languages: the similarity that an embedding model finds between
unrelated texts, and whether it finds translations."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# About everyday life, work, nature, technology, law and art, so that no subject is near to many of them. A sentence and
# its translation have the same place.
SPACED: Final = (
    "The baker takes the bread out of the oven before sunrise.",
    "Tickets for the evening concert are sold at the main entrance.",
    "The committee postponed the vote until its next meeting in autumn.",
    "Rain is expected in the north, while the coast stays dry.",
    "She repaired the old bicycle with parts from the market.",
    "The company published its annual report with a loss of two million.",
    "The glacier has lost a third of its ice within fifty years.",
    "A new employee receives a laptop and a badge on the first day.",
    "The striker scored twice in the second half of the match.",
    "Water flows through the pipe into a tank behind the house.",
    "The court dismissed the claim because the deadline had passed.",
    "Painters of that century mixed their colours from minerals.",
    "The server restarts by itself when its memory is full.",
    "Children learn to read faster when somebody reads to them.",
    "The patient took the tablets twice a day after meals.",
    "The bridge was closed to lorries because of cracks in the concrete.",
    "Bees visit more flowers on warm mornings without wind.",
    "The translation of the novel appeared ten years after the original.",
    "An invoice must name the date of delivery and the tax.",
    "The telescope recorded the light of a distant galaxy.",
    "Their wedding took place in a small village by the lake.",
    "The engine loses power when the filter is dirty.",
    "The museum shows coins that were found in a field.",
    "The train stops for ten minutes at the border.",
)
UNSPACED: Final = (
    "面包师在日出之前把面包从烤箱里取出来。",
    "晚间音乐会的门票在正门出售。",
    "委员会把表决推迟到秋季的下一次会议。",
    "北部预计有雨，沿海地区保持晴朗。",
    "她用市场上买来的零件修好了旧自行车。",
    "公司公布的年度报告显示亏损两百万元。",
    "这座冰川在五十年间失去了三分之一的冰。",
    "新员工第一天会领到电脑和工作证。",
    "前锋在下半场攻入两球，帮助球队获胜。",
    "水通过管道流入房屋后面的水箱。",
    "法院以超过期限为由驳回了诉讼请求。",
    "那个世纪的画家用矿物调配颜料。",
    "内存用尽时，服务器会自动重新启动。",
    "经常听大人朗读的孩子学习认字更快。",
    "病人每天饭后服用两次药片。",
    "由于混凝土出现裂缝，大桥禁止货车通行。",
    "无风的温暖早晨，蜜蜂采访的花朵更多。",
    "这部小说的译本在原著出版十年后问世。",
    "发票必须注明交货日期和税额。",
    "望远镜记录到来自遥远星系的光。",
    "他们的婚礼在湖边的小村庄举行。",
    "滤清器太脏时，发动机的动力会下降。",
    "博物馆展出了在田野里发现的钱币。",
    "列车在边境停靠十分钟。",
)


def found_across(spaced: NDArray[Any], unspaced: NDArray[Any]) -> float:
    """Return how well a model finds translations, in [0, 1]: ``2 * share - 1``, at least 0, of the `UNSPACED` sentences whose
    nearest among `SPACED` is their translation. Names and numbers let a model of one language find up to half."""
    nearest = (unspaced @ spaced.T).argmax(axis=1)
    return max(0.0, 2 * float((nearest == np.arange(len(nearest))).mean()) - 1)
