"""Route a query by its form alone: rules for Chinese and English, with their certainty."""

import re
from dataclasses import dataclass
from typing import Final

from pipeline.keyword.normal_form import normal_form
from pipeline.query.plan import Method

# A rule below this is a guess, on which a language model may decide.
SURE: Final = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A search method; None: search nothing, the query asks nothing. ``certainty`` in [0, 1]. ``rerank``: whether
    reranking can help. ``reason``: a constant phrase that names the rule."""

    method: Method | None
    certainty: float
    reason: str
    rerank: bool = True

    @property
    def is_sure(self) -> bool:
        """Whether the rule is certain enough to skip the model."""
        return self.certainty >= SURE


def route(query_text: str) -> Route:
    """Return the first rule that fits, from the surest to the guess that a hybrid search is never wrong: a few words
    are such a guess, a long question wants words and meaning together."""
    text = normal_form("NFKC", query_text).strip()
    spoken = " ".join(_WORD.findall(text.casefold()))
    if not spoken:
        return Route(method=None, certainty=0.9, reason="no words", rerank=False)
    if _is_small_talk(spoken):
        return Route(method=None, certainty=0.95, reason="small talk", rerank=False)
    quoted = _QUOTED.findall(text)
    rest = _WORD.findall(_QUOTED.sub(" ", text))
    if quoted and not rest:
        return Route(method="full_text", certainty=0.85, reason="a quoted phrase")
    return _by_codes(text) or _by_length(text, spoken, quoted=bool(quoted))


def codes_in(text: str) -> list[str]:
    """Return the identifiers in a text, each once: part numbers, error codes, versions, addresses, names in programs.
    Plain words, small numbers and amounts with a unit are none."""
    codes = (match[0].strip(".-_/:") for match in _TOKEN.finditer(text))
    return list(dict.fromkeys(token for token in codes if _is_code(token)))


def _by_codes(text: str) -> Route | None:
    codes = codes_in(text)
    if not codes:
        return None
    rest = text
    for code in codes:
        rest = rest.replace(code, " ")
    words = [word for word in _LETTERS.findall(_HAN.sub(" ", rest.casefold())) if word not in _LINKS]
    others = len(words) + len(_HAN.findall(rest)) / 2  # two characters make a Chinese word
    if others == 0:
        return Route(method="full_text", certainty=0.9, reason="an identifier", rerank=False)
    if others <= 2 and not _ASKS.search(text):
        return Route(method="full_text", certainty=0.7, reason="an identifier with a word or two")
    return None


def _by_length(text: str, spoken: str, *, quoted: bool) -> Route:
    if _ALIKE.search(text):
        return Route(method="semantic", certainty=0.65, reason="asks for what is alike")
    words = len(_LETTERS.findall(_HAN.sub(" ", spoken))) + len(_HAN.findall(spoken)) / 2
    if quoted:
        return Route(method="hybrid", certainty=0.7, reason="a phrase and more")
    if words >= _LONG or (words >= _QUESTION and _ASKS.search(text)):
        return Route(method="hybrid", certainty=0.8, reason="a question in full")
    return Route(method="hybrid", certainty=0.5, reason="a few words")


def _is_small_talk(spoken: str) -> bool:
    """Return whether nothing but greetings, thanks and the like is in the query."""
    if len(spoken) > _LONGEST_SMALL_TALK:
        return False
    left = spoken
    for pattern in (_SMALL_TALK, _FILLERS):
        left = pattern.sub(" ", left)
    return not left.strip() and bool(_SMALL_TALK.search(spoken))


def _is_code(token: str) -> bool:
    if not 2 <= len(token) <= _LONGEST_CODE or _AMOUNT.fullmatch(token):
        return False
    digits, letters = any(map(str.isdigit, token)), any(map(str.isalpha, token))
    if digits and letters:
        return True
    if digits:
        return bool(_DOTTED_NUMBER.fullmatch(token)) or (token.isdigit() and len(token) >= _LONG_NUMBER)
    return bool(_PROGRAM_NAME.fullmatch(token))


_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
_LETTERS: Final = re.compile(r"[^\W\d_]+")  # of any script
_HAN: Final = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_LONGEST_CODE: Final = 128  # characters
_LONG_NUMBER: Final = 5  # digits; a year or an amount has fewer
_TOKEN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/#-]{0,127}")
_QUOTED: Final = re.compile(r"\"[^\"]{2,200}\"|“[^”]{2,200}”|「[^」]{2,200}」|『[^』]{2,200}』|《[^》]{1,200}》")
_AMOUNT: Final = re.compile(
    r"\d+(?:[.,]\d+)?(?:st|nd|rd|th|s|ms|h|d|x|k|m|g|gb|mb|kb|tb|kg|mg|cm|mm|km|nm|hz|ghz|w|v|a|%)", re.IGNORECASE
)
_DOTTED_NUMBER: Final = re.compile(r"\d+(?:[.:/-]\d+){2,}")
# snake_case, camelCase, PascalCase of two humps, dotted.names, and paths; "and/or" and "e.g" are none of them.
_PROGRAM_NAME: Final = re.compile(
    r"[A-Za-z]+(?:_[A-Za-z]+)+|[a-z]+(?:[A-Z][a-z]+)+|(?:[A-Z][a-z]+){2,}"
    r"|[A-Za-z]{3,}(?:\.[A-Za-z]{2,})+|[A-Za-z]+(?:/[A-Za-z]+){2,}"
)
_LINKS: Final = frozenset(
    {"and", "or", "the", "a", "an", "of", "for", "in", "on", "error", "code", "part", "number", "no"}
)

_LONG: Final = 6  # words; from here on a query says enough to be searched by meaning as well
_QUESTION: Final = 3
_ASKS: Final = re.compile(
    r"[?？]|\b(?:how|what|why|when|where|who|whom|whose|which|can|could|does|do|did|is|are|should|will)\b"
    r"|如何|怎[么麼样樣]|什[么麼]|[为為][什何]|哪|[谁誰]|多少|[是能可]否|[几幾][个個]|[吗嗎]|呢",
    re.IGNORECASE,
)
_ALIKE: Final = re.compile(
    r"\b(?:examples?|passages?|texts?|cases?|scenes?|stories|sentences?|paragraphs?|something|anything)"
    r" (?:similar to|like|in the style of|reminiscent of)\b"
    r"|(?:[类類]似|相似|相近|[类類]同)的(?:例子|案例|病例|段落|表[达達]|情[节節]|场景|場景|句子|[对對][话話]|[说說]法|文字|故事)",
    re.IGNORECASE,
)

_LONGEST_SMALL_TALK: Final = 60  # characters
_ENGLISH_TALK: Final = (
    r"hi+|hello+|hey+|howdy|greetings|good (?:morning|afternoon|evening|night|day)|how are you(?: doing)?|how do you do"
    r"|how's it going|what's up|nice to meet you|thanks?(?: you)?|thank u|thx|many thanks|cheers|bye+|goodbye|see you"
    r"|see ya|good ?bye|you're welcome|never ?mind|who are you|what are you|what's your name|what is your name"
    r"|what can you do|are you there|are you a (?:bot|robot|human)|ok|okay|lol|haha+|well done|great job|good job"
)
_CHINESE_TALK: Final = (
    "你好|您好|大家好|哈[喽嘍啰囉]|嗨+|早上好|上午好|中午好|下午好|晚上好|早安|午安|晚安|你是[谁誰]|您是[谁誰]"
    "|你叫什[么麼](?:名字)?|你能做什[么麼]|你[会會]做什[么麼]|你[会會]什[么麼]|在[吗嗎]|在不在|有人[吗嗎]|[谢謝][谢謝]|多[谢謝]|感[谢謝]"
    "|辛苦[了啦]?|不客[气氣]|[没沒]事[了啦]?|再[见見]|拜拜|回[头頭][见見]|好的|好吧|哈哈+|呵呵+|嘿嘿+|嗯+"
)
_SMALL_TALK: Final = re.compile(rf"(?<![a-z'])(?:{_ENGLISH_TALK})(?![a-z'])|{_CHINESE_TALK}")
# Words that accompany small talk and mean nothing by themselves.
_FILLERS: Final = re.compile(
    r"(?<![a-z'])(?:there|everyone|all|friend|sir|madam|buddy|bot|assistant|so much|very much|a lot|again|for now|today"
    r"|later|then|please|to|you|and|so|my)(?![a-z'])|[呀啊哦呢吗嗎吧啦了哈喔哟呦啰你您]|非常|十分|朋友|同[学學]|助手|[机機]器人|先生|女士|各位"
)
