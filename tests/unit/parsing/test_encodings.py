"""Text in the encodings that files come in: the right text, or a warning."""

from __future__ import annotations

import time

import pytest

from pipeline.parsing.detection import codec_of, guess
from pipeline.parsing.encodings import read_text
from pipeline.parsing.formats import parse

STATUS_HANT = "設備狀態：舵機正常，請檢查。"
STATUS_HANS = "设备状态：舵机正常，请检查。"
MANUAL_HANS = (
    "控制器编号,状态,说明\nK-17,正常,每次启动前检查舵机的供电电压\nK-18,故障,请更换保险丝后重新上电\n"
    "K-19,停用,等待备件到货，由维修班组安装\n"
)
MANUAL_HANT = (
    "控制器編號,狀態,說明\nK-17,正常,每次啟動前檢查舵機的供電電壓\nK-18,故障,請更換保險絲後重新上電\n"
    "K-19,停用,等待備件到貨，由維修班組安裝\n"
)
JAPANESE = "装置の状態：サーボは正常です。電源を確認してください。"
KOREAN = "장치 상태: 서보 모터가 정상입니다. 전원을 확인하십시오."
FRENCH = "L'état de l'équipement : le servomoteur a été vérifié à l'arrêt."
GERMAN = "Gerätezustand: Prüfung des Stellmotors für die Höhenverstellung läuft."
SPANISH = "¿Está encendida la máquina? Compruebe la tensión de alimentación mañana."
ENGLISH = "The servo’s state is “normal” — check the supply (5 °C), café open."
RUSSIAN = "Состояние устройства: сервопривод исправен, проверьте питание."
POLISH = "Stan urządzenia: siłownik działa, proszę sprawdzić zasilanie i złącze."

FILES = [
    (STATUS_HANT, "big5"),
    (MANUAL_HANT, "big5"),
    (MANUAL_HANT * 4000, "big5"),
    ("資料庫設定說明，請備份", "big5"),
    (STATUS_HANS, "gb18030"),
    (MANUAL_HANS, "gb18030"),
    (MANUAL_HANS * 4000, "gb18030"),
    (STATUS_HANS, "gbk"),
    ("数据库连接失败，请重试", "gbk"),
    (STATUS_HANT, "gb18030"),
    (JAPANESE, "shift_jis"),
    (JAPANESE * 5000, "shift_jis"),
    (JAPANESE, "euc_jp"),
    ("電源を確認してください", "shift_jis"),
    (KOREAN, "euc_kr"),
    ("전원을 확인하십시오", "euc_kr"),
    (STATUS_HANS, "utf-16"),
    (STATUS_HANT, "utf-16-le"),
    (STATUS_HANS, "utf-16-be"),
    (MANUAL_HANS, "utf-16-le"),
    (KOREAN, "utf-16-le"),
    (JAPANESE, "utf-16-be"),
    (ENGLISH, "utf-16-le"),
    (FRENCH, "latin-1"),
    (GERMAN, "latin-1"),
    (SPANISH, "latin-1"),
    (ENGLISH, "cp1252"),
    ("Crème brûlée", "cp1252"),
    ("Müller & Söhne", "cp1252"),
    (GERMAN * 12_000, "cp1252"),
    (RUSSIAN, "cp1251"),
    (RUSSIAN, "koi8-r"),
    (POLISH, "iso8859-2"),
    (POLISH, "cp1250"),
    (STATUS_HANS, "utf-8"),
    (STATUS_HANT, "utf-8-sig"),
    (FRENCH, "utf-8"),
    (JAPANESE, "iso2022_jp"),
]


class DescribeReadText:
    @pytest.mark.parametrize(
        ("text", "encoding"), FILES, ids=[f"{encoding} {len(text)} {text[:4]}" for text, encoding in FILES]
    )
    def it_reads_the_right_text(self, text, encoding):
        found = read_text(text.encode(encoding))
        assert found.text == text, found.encoding
        assert found.encoding.warning is None

    @pytest.mark.parametrize("text", [STATUS_HANS, STATUS_HANT, MANUAL_HANS, MANUAL_HANT, JAPANESE, KOREAN, FRENCH])
    @pytest.mark.parametrize(
        "encoding", ["gb18030", "big5", "shift_jis", "euc_jp", "euc_kr", "utf-16-le", "utf-16-be", "cp1252"]
    )
    def it_warns_where_the_beginning_of_a_text_misleads(self, text, encoding):
        try:
            body = text.encode(encoding)
        except UnicodeEncodeError:
            return
        for length in range(2, len(text)):
            piece = text[:length]
            found = read_text(piece.encode(encoding))
            assert found.text == piece or found.encoding.warning, (piece, found)
        assert read_text(body).text == text

    def it_says_the_encoding_with_its_probability(self):
        found = read_text(STATUS_HANT.encode("big5")).encoding
        assert found.name == "big5"
        assert 0.95 <= found.probability <= 1

    @pytest.mark.parametrize("mark", ["> ", "- ", "--", "[", "**", "==", "| ", "x,", "<b>"])
    @pytest.mark.parametrize("end", ["é", "深", "deep 深", "°C", "字。"])
    def it_reads_few_characters_after_much_ascii(self, mark, end):
        for text in (mark * 500 + end, mark * 501 + end):
            assert read_text(text.encode()).text == text
            assert read_text(text.encode()).encoding.warning is None

    @pytest.mark.parametrize("encoding", ["gb18030", "big5", "utf-16-le"])
    def it_reads_tables_drawn_with_lines(self, encoding):
        text = (
            "─" * 40 + "\n│ 設備狀態 │ 舵機正常 │\n"
            if encoding != "gb18030"
            else "─" * 40 + "\n│ 设备状态 │ 舵机正常 │\n"
        ) * 9
        assert read_text(text.encode(encoding)).text == text

    def it_looks_at_the_whole_text(self):
        body = b"name,note\n" * 30_000 + MANUAL_HANT.encode("big5")
        assert read_text(body).text.endswith(MANUAL_HANT)

    def it_takes_far_below_a_second_for_a_megabyte(self):
        for text, encoding in (
            (MANUAL_HANS, "gb18030"),
            (MANUAL_HANT, "big5"),
            (RUSSIAN, "cp1251"),
            (KOREAN, "euc_kr"),
        ):
            body = text.encode(encoding) * (1_000_000 // len(text.encode(encoding)))
            began = time.process_time()
            read_text(body)
            assert time.process_time() - began < 0.8

    @pytest.mark.parametrize(
        ("text", "encoding", "declared"),
        [
            ("舵机", "gbk", "gbk"),
            ("舵機", "big5", "Big5"),
            ("żółć", "iso-8859-2", "iso-8859-2"),
            ("サーボ", "shift_jis", "Shift_JIS"),
            (STATUS_HANS, "utf-16-le", "utf-16le"),
            ("Ąžuolas", "cp1257", "windows-1257"),
        ],
    )
    def it_prefers_the_declared_character_set(self, text, encoding, declared):
        found = read_text(text.encode(encoding), declared=declared)
        assert found.text == text
        assert "declared" not in (found.encoding.warning or "")

    @pytest.mark.parametrize("declared", ["gb18030", "utf-8", "windows-1252", "no-such-set"])
    def it_names_a_declared_character_set_that_does_not_fit(self, declared):
        found = read_text(MANUAL_HANT.encode("big5"), declared=declared)
        assert found.text == MANUAL_HANT
        assert declared in (found.encoding.warning or "")

    def it_warns_of_a_damaged_text(self):
        body = MANUAL_HANS.encode("gb18030")
        found = read_text(body[:60] + b"\xff" + body[60:])
        assert "cannot be decoded as gb18030" in (found.encoding.warning or "")

    @pytest.mark.parametrize("media_type", ["text/plain", "text/csv", "text/markdown", "text/html"])
    def it_is_said_by_every_parser_of_text(self, media_type):
        parsed = parse(MANUAL_HANT.encode("big5"), media_type=media_type)
        assert parsed.encoding is not None
        assert parsed.encoding.name == "big5"
        assert "檢查舵機" in parsed.text


class DescribeGuess:
    @pytest.mark.parametrize(
        "body", [bytes(range(128, 256)) * 4, bytes(128 + number * number % 127 for number in range(3, 999))]
    )
    def it_finds_random_bytes_implausible(self, body):
        found = guess(body)
        assert found is None or not found.is_plausible


class DescribeCodecOf:
    @pytest.mark.parametrize(
        ("charset", "codec"),
        [("GB2312", "gb18030"), ("x-sjis", "cp932"), ("big5", "big5hkscs"), ("latin-1", "cp1252"), ("hex", None)],
    )
    def it_is_the_larger_table(self, charset, codec):
        assert codec_of(charset) == codec
