"""Character frequencies of the languages that documents are written in.

A model is a list of tiers: sets of characters with the share of a text's non-ASCII characters that falls to each set.
Within a tier all characters are equally likely, except in lists of letters, where the weight falls with the position (1
/ (position + 1)). The tiers of ideographs are a hand-made list of the most frequent ones, the first level of the
national standard (GB 2312, Big5, JIS X 0208, KS X 1001: the common ones) and the others.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product

UNKNOWN = -16.5  # natural logarithm of the probability of a character outside all tiers
IMPOSSIBLE = -25.0  # of a character that does not occur in text: control, private-use or unassigned, U+FFFD

_HANS = (
    "的一是在不了有和人这中大为上个国我以要他时来用们生到作地于出就分对成会可主发年动同工也能下过子说产种面而方后多定行学法所民得经十"
    "三之进着等部度家电力里如水化高自二理起小物现实加量都两体制机当使点从业本去把性好应开它合还因由其些然前外天政四日那社义事平形相全"
    "表间样与关各重新线内数正心反你明看原又么利比或但质气第向道命此变条只没结解问意建月公无系军很情者最立代想已通并提直题党程展五果料"
    "象员革位入常文总次品式活设及管特件长求老头基资边流路级少图山统接知较将组见计别她手角期根论运农指几九区强放决西被干做必战先回则任"
    "取据处队南给色光门即保治北造百规热领七海口东导器压志世金增争济阶油思术极交受联什认六共权收证改清己美再采转更单风切打白教速花带安"
    "场身车例真务具万每目至达走积示议声报斗完类八离华名确才科张信马节话米整空元况今集温传土许步群广石记需段研界拉林律叫且究观越织装影"
    "算低持音众书布复容儿须际商非验连断深难近矿千周委素技备半办青省列习响约支般史感劳便团往酸历市克何除消构府称太准精值号率族维划选标"
    "写存候毛亲快效斯院查江型眼王按格养易置派层片始却专状育厂京识适属圆包火住调满县局照参红细引听该铁价严请网页码户测试服版错误启停返"
)
# The simplified characters of the list above with a different traditional form, each with that form.
_PAIRS = (
    "这這个個为為国國时時来來们們对對会會发發动動过過说說产產种種后後学學经經进進着著电電里裡现現实實两兩体體机機当當点點从從业業"
    "应應开開还還义義间間样樣与與关關线線内內数數质質气氣变變条條没沒结結问問无無军軍总總设設长長头頭资資边邊级級图圖统統较較将將组組"
    "见見计計别別论論运運农農几幾区區强強决決战戰则則据據处處队隊给給门門规規热熱领領东東导導压壓济濟阶階术術极極联聯认認权權证證转轉"
    "单單风風带帶场場车車务務万萬达達积積议議声聲报報类類离離华華确確张張马馬节節话話况況传傳许許广廣记記观觀织織装裝书書复復儿兒须須"
    "际際验驗连連断斷难難矿礦备備办辦习習响響约約劳勞团團历歷构構称稱准準号號维維划劃选選标標写寫亲親养養层層专專状狀厂廠识識适適属屬"
    "圆圓满滿县縣参參红紅细細听聽铁鐵价價严嚴么麼党黨员員题題争爭斗鬥却卻温溫众眾调調于於并並请請网網页頁码碼户戶测測试試错錯误誤启啟"
)
_HANT = _HANS.translate(dict(zip(map(ord, _PAIRS[0::2]), _PAIRS[1::2], strict=True)))
_KANJI = (
    "日一国人年大十二本中長出三時行見月分後前生五間上東四今金九入学高円子外八六下来気小七山話女北午百書先名川千水半男西電校語土木聞食車"
    "何南万毎白天母火右読友左休父雨会同事自社発者地業方新場員立開手力問代明動京目通言理体田主題意不作用度強公持野以思家世多正安院心界教"
    "文元重近考画海売知道集別物使品計死特私始朝運終台広住無真有口少町料工建空急止送切転研足究楽起着店病質待試族銀早映親験英医仕去味写字"
    "答夜音注帰古歌買悪図週室歩風紙黒花春赤青館屋色走秋夏習駅洋旅服説章設定表示合確認変更対応情報続接必要場合"
)
_HIRAGANA = "のにはたをがでてとしいるなもれさらうかこまりすよ"
_KATAKANA = "ンスルトーラリイアクシドジプテタロマグレデフサビ"
_HANGUL = (
    "이다는의에을가고하지한은를로리도사기어시자인대있나그서해아정일부수라들보여장전상주원성제게니과구동면공적국우안조만신연경유비내중생선소"
    "마화문저모세무까요할방용음물며행관오발실입래말았었합습된되러설명확파태검출력결과본체계때민식않없으것속점진위양산"
)
_CJK_MARKS = "，。、：；？！（）“”《》「」『』‘’【】—…·　〈〉〔〕～％＋－＝／"
_CJK_SIGNS = (
    "".join(map(chr, [*range(0x2500, 0x2580), *range(0xFF01, 0xFF5F)]))
    + "①②③④⑤⑥⑦⑧⑨⑩ⅠⅡⅢⅣⅤ℃±×÷≤≥≠≈∞√∑°′″§№☆★○●◎◇◆□■△▲▽▼→←↑↓※〒々〇￥￡￠•‧–"
)
_RULES = "─│┌┐└┘├┤┬┴┼═║╔╗╚╝━┃"
_WESTERN_MARKS = "’“”–—‘…«»°€£©®·•¿¡§ \xa0²³½µ×±º´™"

Tier = tuple[str | Mapping[str, float], float]  # characters, with their weights or all alike, and their share


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """One language: log-probabilities of its non-ASCII characters. ``stays``: the probability that another one follows.
    ``is_alphabet``: its words have no ASCII letters."""

    name: str
    logs: Mapping[str, float]
    stays: float
    is_alphabet: bool = False


@cache
def languages() -> Mapping[str, Language]:
    """Return every language, by name; computed at the first call, which takes some milliseconds."""
    levels = _levels()
    marks: list[Tier] = [(_CJK_MARKS, 0.13), (_CJK_SIGNS, 0.01), (_RULES, 0.01)]
    kana: list[Tier] = [(_hiragana(), 0.0008), (_katakana(), 0.0008)]
    every_ideograph = "".join(map(chr, range(0x4E00, 0x9FA6)))
    every_syllable = "".join(map(chr, range(0xAC00, 0xD7A4)))
    chinese: list[Tier] = [
        *marks,
        *kana,
        (every_ideograph, 0.002),
        (_letters("éàüöñ"), 0.0005),
        (_WESTERN_MARKS, 0.002),
    ]
    models = [
        _language("zh-Hans", 0.93, [(_HANS, 0.68), (levels["gb1"], 0.17), (levels["gb2"], 0.006), *chinese]),
        _language("zh-Hant", 0.93, [(_HANT, 0.68), (levels["big1"], 0.17), (levels["big2"], 0.006), *chinese]),
        _language(
            "ja",
            0.93,
            [
                *((_HIRAGANA, 0.34), (_hiragana(), 0.12), (_KATAKANA, 0.10), (_katakana(), 0.05)),
                *((_KANJI, 0.16), (levels["jis1"], 0.14), (levels["jis2"], 0.002), *marks),
                *(
                    ("".join(map(chr, range(0xFF61, 0xFFA0))), 0.002),
                    (every_ideograph, 0.0002),
                    (_WESTERN_MARKS, 0.001),
                ),
            ],
        ),
        _language(
            "ko",
            0.72,
            [
                *((_HANGUL, 0.70), (levels["ks"], 0.15), (every_syllable, 0.003), *marks),
                *((levels["hanja"], 0.006), *kana, (_WESTERN_MARKS, 0.003)),
            ],
        ),
    ]
    models += [
        _language(name, 0.05, [(_letters(letters), 0.78), (_WESTERN_MARKS, 0.15), (_western_letters(), 0.01)])
        for name, letters in _LATIN.items()
    ]
    models.append(_language("western", 0.06, [(_western_letters(), 0.7), (_WESTERN_MARKS, 0.25)]))
    models += [
        _language(name, 0.83, [(_letters(letters), 0.95), (_WESTERN_MARKS + "№", 0.03)], is_alphabet=True)
        for name, letters in _OTHER_SCRIPTS.items()
    ]
    return {language.name: language for language in models}


# The letters of each language that are not in ASCII, the most frequent first.
_LATIN = {
    "fr": "éèàêçôâîûùëïœÉÀÊÇÈ",
    "de": "üäößÜÄÖ",
    "es": "óíáéñúüÁÉÍÓÚÑ",
    "pt": "ãçáéõíêóâúàÇÃÁ",
    "it": "àèéìòùÈÀ",
    "nordic": "äöåøæéÅØÆÖÄðþíáóúýÞ",
    "pl": "ąęłóżśćńźŁŚŻÓĆ",
    "cs": "íáéěřščžýůúťďňČŠŽŘľĺôä",
    "hu": "áéóőöíüúűÁÉÖÓ",
    "ro": "ăîșțâşţîŞŢÎ",
    "tr": "ıiüşğçöİŞÇÖÜĞâ",
    "hr": "čšžćđČŠŽĆĐ",
    "baltic": "āīšēņūžļķčģėįųąę",
}
_OTHER_SCRIPTS = {
    "ru": "оеаитнсрвлкмдпуяыьгзбчйхжшюцщэфъёВПСОНКМИАТРБДГЭУЛЗЯЧФХЕЖШЮЦіїєґІўҐ",
    "el": "αοιετσνηυρπκμλςόωθάίγδήχέύφώβξζψΑΤΕΟΠΣΚΜΝΗΙΛΡΓΔΘΧΦΥΒΩΈΌΆ",
    "he": "יוהלארתבשמנםדקעפחכןטגצסזךץףאַ",
    "ar": "اليمنوتربةدعسفحكقجهشصخطذىأزضءإئغظثؤآ،؟",
    "th": "านรอกเงมยลวดทสตะปบคหแจพชขใไโผซธศณฐภถ่้ิีึืุู็์ัำๆฯ",
}


def _language(name: str, stays: float, tiers: list[Tier], *, is_alphabet: bool = False) -> Language:
    logs: dict[str, float] = {}
    for characters, share in tiers:
        weights = characters if isinstance(characters, Mapping) else dict.fromkeys(characters, 1.0)
        total = sum(weights.values())
        for character, weight in weights.items():
            logs[character] = max(logs.get(character, -math.inf), math.log(share * weight / total))
    return Language(name=name, logs=logs, stays=stays, is_alphabet=is_alphabet)


def _letters(characters: str) -> Mapping[str, float]:
    """Return the weights of letters; a capital that is not listed gets an eighth of its small letter's."""
    listed = {letter: 1 / (position + 3) for position, letter in enumerate(characters) if not letter.isascii()}
    capitals = {letter.upper(): weight / 8 for letter, weight in listed.items() if len(letter.upper()) == 1}
    return {letter: weight for letter, weight in capitals.items() if not letter.isascii()} | listed


def _western_letters() -> str:
    return "".join(chr(code) for code in range(0xC0, 0x100) if code not in (0xD7, 0xF7)) + "œŒŸšŠžŽªº"


def _hiragana() -> str:
    return "".join(map(chr, range(0x3041, 0x3094)))


def _katakana() -> str:
    return "".join(map(chr, range(0x30A1, 0x30F7))) + "ーヽヾ"


def _levels() -> dict[str, str]:
    """Return the characters of the levels of the national standards."""
    return {
        "gb1": _rows("gb2312", range(0xB0, 0xD8)),
        "gb2": _rows("gb2312", range(0xD8, 0xF8)),
        "big1": _rows("big5", range(0xA4, 0xC7)),
        "big2": _rows("big5", range(0xC9, 0xFA)),
        "jis1": _rows("euc_jp", range(0xB0, 0xD0)),
        "jis2": _rows("euc_jp", range(0xD0, 0xF5)),
        "ks": _rows("euc_kr", range(0xB0, 0xC9)),
        "hanja": _rows("euc_kr", range(0xCA, 0xFE)),
    }


def _rows(encoding: str, leads: range) -> str:
    trails = [*range(0x40, 0x7F), *range(0xA1, 0xFF)] if encoding == "big5" else range(0xA1, 0xFF)
    texts = (bytes(pair).decode(encoding, "ignore") for pair in product(leads, trails))
    return "".join(text for text in texts if len(text) == 1)
