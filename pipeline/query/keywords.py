"""Extract keywords and names from a query and its background (earlier messages and the profile of its user) without a model.
Chinese and English."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

from pipeline.keyword.dictionary import QUOTED
from pipeline.keyword.normal_form import normal_form
from pipeline.keyword.terms import STOP_WORDS, query_terms
from pipeline.query.routing import codes_in

_MOST: Final = 10
_LONGEST: Final = 40  # characters of a keyword; a longer one is a sentence


def keywords_of(query_text: str, *, most: int = _MOST) -> list[str]:
    """Return the words to search for, in order of appearance, identifiers first, each once.

    English: words that are not stop words. Chinese: dictionary words that are not question words, particles or other
    words of grammar. Empty for a query of grammar alone.
    """
    text = normal_form("NFKC", query_text)
    codes = codes_in(text)
    for code in codes:
        text = text.replace(code, " ")
    words = [*codes]
    for word in _PIECE.findall(text):
        if _HAN.match(word):
            words.extend(_between_grammar(word))
        elif word.casefold() not in _GRAMMAR and len(word) > 1:
            words.append(word)
    return list(distinct_words((word for word in words if len(word) <= _LONGEST and query_terms(word)), most=most))


def entities_of(query_text: str, *, most: int = _MOST) -> list[str]:
    """Return the names in a query: 《titles》 and quoted phrases without their signs, identifiers, and capitalised names
    in English, each once, in this order."""
    text = normal_form("NFKC", query_text)
    titles = [title.strip() for group in QUOTED.findall(text) for title in group if title.strip()]
    names = []
    for match in _CAPITALISED.finditer(QUOTED.sub(" . ", text)):
        words = match[0].split()
        while words and words[0].casefold() in _GRAMMAR:
            words = words[1:]
        begins = match.start() == 0 or text[: match.start()].rstrip()[-1:] in ".?!。？！"
        if len(words) > 1 or (words and len(words[0]) > 1 and not begins):
            names.append(" ".join(words))
    all_names = (*titles, *codes_in(text), *names)
    return list(distinct_words((name for name in all_names if len(name) <= _LONGEST * 2), most=most))


def distinct_words(words: Iterable[str], *, most: int) -> tuple[str, ...]:
    """Return the first ``most`` words that differ in more than case; later words are not computed."""
    distinct: dict[str, str] = {}
    for word in words:
        distinct.setdefault(word.casefold(), word)
        if len(distinct) == most:
            break
    return tuple(distinct.values())


def _between_grammar(run: str) -> list[str]:
    """Return the words of a run of Chinese without those of grammar, which may span several words (我想知道).

    A match of grammar counts only if it begins and ends at words of the dictionary, so 和田玉 keeps its 和. Single
    characters are dropped, unless they alone stand between two words of grammar: then they are one word, joined, that
    the dictionary lacks.
    """
    ends = frozenset(accumulate(map(len, segment(run))))
    parts: list[list[str]] = [[]]
    start = 0
    while start < len(run):
        end = next(end for end in range(start + 1, len(run) + 1) if end in ends)
        word_end = _end_at_boundary(_WORDS_WITH_GRAMMAR, run, start, ends)
        grammar_end = None if word_end else _end_at_boundary(_GRAMMAR_WORDS, run, start, ends)
        if grammar_end is None and _GRAMMAR_WORDS.fullmatch(run, start, end):
            grammar_end = end  # 怎么 in 怎么|办理, where the longest match is 怎么办
        if grammar_end:
            parts.append([])
        else:
            parts[-1].append(run[start : word_end or end])
        start = word_end or grammar_end or end
    words: list[str] = []
    for part in parts:
        longer = [word for word in part if len(word) > 1]
        words += longer or (["".join(part)] if len(part) > 1 else [])
    return words


def _end_at_boundary(pattern: re.Pattern[str], run: str, start: int, ends: Container[int]) -> int | None:
    """Return the end of the match of ``pattern`` at ``start``, None without one or if it ends inside a word."""
    match = pattern.match(run, start)
    return match.end() if match and match.end() in ends else None


_HAN: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_PIECE: Final = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff]+|[^\\W_\u3400-\u4dbf\u4e00-\u9fff]+(?:[-'][^\\W_\u3400-\u9fff]+)*"
)
_CAPITALISED: Final = re.compile(r"(?<!\w)[A-Z][\w'’-]*(?:[ ]+(?:(?:of|the|de|van|von|da)[ ]+)?[A-Z][\w'’-]*)*")


def _any_of(words: str) -> re.Pattern[str]:
    """Return a pattern of the words, longest first: an alternation takes the first that fits."""
    return re.compile("|".join(sorted(words.split(), key=len, reverse=True)))


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_GRAMMAR: Final = STOP_WORDS | _set_of(
    """please tell me know want find show give explain describe get need let's i'm what's how's who's whats there's after
    before between also more most much many very just only does don't can't isn't hello hi thanks not no yes"""
)
_GRAMMAR_WORDS: Final = _any_of(
    """请问 請問 请 請 我想知道 我想 想知道 告诉我 告訴我 帮我 幫我 麻烦 麻煩 如何 怎么样 怎麼樣 怎么办 怎麼辦 怎么
    怎麼 怎样 怎樣 为什么 為什麼 为何 為何 什么样 什麼樣 什么时候 什麼時候 是什么 是什麼 有什么 有什麼 什么 什麼
    何时 何時 何处 何處 哪里 哪裡 哪儿 哪個 哪个 哪些 哪一年 哪年 哪种 哪種 谁 誰 多少 几个 幾個 是否 能否 可否
    能不能 可不可以 是不是 有没有 有沒有 可以 应该 應該 需要 以及 或者 还是 還是 并且 并 關於 关于 对于 對於 有关
    有關 的 了 吗 嗎 呢 吧 啊 呀 么 麼 和 与 與 及 或 是 在 把 被 给 給 从 從 向 跟 我 你 您 他 她 它 们 們 这个
    這個 那个 那個 这些 這些 那些 一下 我们 我們
    你们 你們 他们 他們 她们 它们 咱们 自己 大家 知道 告诉 告訴 一个 一個 这样 那样 这里 那里 因为 所以 如果 但是 为了
    什么样 怎么着 哪 能 会 會 不 要 这项 這項 不要 不能
    要不要 会不会 這 这 那 想 问 都 也 就 还 還 很 之 之间 之間"""
)
_WORDS_WITH_GRAMMAR: Final = _any_of(
    """目的 的士 的确 的確 标的 標的 现在 現在 存在 正在 所在 在线 在線 内在 內在 潜在 潛在 了解 和平 和谐 和諧
    温和 溫和 饱和 飽和 共和 总和 總和 参与 參與 与会 及时 及時 普及 涉及 埃及 及格 是非 把握 被子 被动 被動
    给予 供给 供給 从事 從事 方向 向量 倾向 傾向 跟踪 跟蹤 自我 其他 首都 都市 成都 京都 就业 就業 成就 就诊
    就診 还款 還款 还原 還原 归还 歸還 之后 之前 申请 申請 请假 請假 请求 請求 邀请 邀請 合并 合併 并发 并行 或许
    或許"""
)


_MESSAGES: Final = 8  # the last ones; a question rarely refers to older ones
_LONGEST_MESSAGE: Final = 1_000  # characters of a message, its beginning
_MOST_WORDS: Final = 8
_PROFILE_TOPICS: Final = ("role", "preferences", "interests")  # not the user's name, which is no topic
_SPEAKER: Final = re.compile(r"\A(?:user|human|assistant|ai|system|用户|用戶|助手|系统|系統) ?[:：]", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """Messages before a query, oldest first, and the profile of its user, a JSON object."""

    conversation: tuple[str, ...] = ()
    profile: Mapping[str, Any] = field(default_factory=dict)


def background_of(conversation: Sequence[str] | None, profile: Mapping[str, Any] | None) -> Background | None:
    """Return the last messages, shortened, and the profile; None if both are empty."""
    messages = [message.strip()[:_LONGEST_MESSAGE] for message in conversation or () if message.strip()]
    if not messages and not profile:
        return None
    return Background(conversation=tuple(messages[-_MESSAGES:]), profile=profile or {})


def conversation_words(background: Background) -> tuple[str, ...]:
    """Return the keywords of the conversation, those of its newest message first, each once; at most eight."""
    newest_first = (_SPEAKER.sub("", message) for message in reversed(background.conversation))
    return distinct_words((word for message in newest_first for word in keywords_of(message)), most=_MOST_WORDS)


def profile_words(background: Background) -> tuple[str, ...]:
    """Return up to eight keywords of a profile's role, preferences and interests (strings or lists)."""
    topics = (background.profile.get(name) for name in _PROFILE_TOPICS)
    texts = (text for topic in topics for text in (topic if isinstance(topic, list) else [topic]))
    words = (word for text in texts if isinstance(text, str) for word in keywords_of(text[:_LONGEST_MESSAGE]))
    return distinct_words(words, most=_MOST_WORDS)


def segment(text: str) -> list[str]:
    """Return the words of ``text`` in order, which join to it. The first call loads the dictionary (1 s, 32 MB)."""
    import rjieba

    return list(rjieba.cut(text))
