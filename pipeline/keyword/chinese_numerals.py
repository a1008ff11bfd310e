"""Chinese numerals: their values, and numbers as they are written with them."""

from typing import Final

FROM_FORMAL: Final = str.maketrans("壹贰叁肆伍陆柒捌玖拾佰仟", "一二三四五六七八九十百千")
TO_FORMAL: Final = str.maketrans("一二三四五六七八九十百千", "壹贰叁肆伍陆柒捌玖拾佰仟")
SIGNS: Final = "〇零一二三四五六七八九"
VALUES: Final = {sign: max(0, place - 1) for place, sign in enumerate(SIGNS)} | {"两": 2}
SCALES: Final = {"十": 10, "百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
LARGE: Final = 10_000


def value_of(numeral: str) -> int:
    """Return the value of a numeral, of digits in a row (二〇二四) or with scales (一万两千三百)."""
    numeral = numeral.translate(FROM_FORMAL)
    if not any(scale in numeral for scale in SCALES):
        return int("".join(str(VALUES[sign]) for sign in numeral))
    total = section = digit = 0
    scale = 1
    for sign in numeral:
        if sign in VALUES:
            digit, scale = VALUES[sign], 1 if VALUES[sign] == 0 else scale
        elif SCALES[sign] >= LARGE:
            scale = SCALES[sign]
            before, kept = (total, 0) if sign == "亿" else (0, total)
            total, section, digit = kept + (before + section + digit) * scale, 0, 0
        else:
            section, digit, scale = section + (digit or 1) * SCALES[sign], 0, SCALES[sign]
    return total + section + digit * max(1, scale // 10)  # 一万二 is 12000


def decimal(numeral: str) -> str:
    """Return a numeral in digits: 十二点五 as 12.5."""
    whole, _, behind = numeral.partition("点")
    return f"{value_of(whole)}.{''.join(str(VALUES[sign]) for sign in behind)}"


def numeral(value: int) -> str:
    """Return the numeral of a number below ten thousand millions."""
    if value >= LARGE:
        scale = "亿" if value >= SCALES["亿"] else "万"
        high, low = divmod(value, SCALES[scale])
        zero = "零" if low and low < SCALES[scale] // 10 else ""
        return numeral(high) + scale + (zero + numeral(low) if low else "")
    written, has_gap = "", False
    for unit, name in ((1000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, value = divmod(value, unit)
        if digit:
            written += ("零" if has_gap and written else "") + SIGNS[digit + 1] + name
        has_gap = not digit
    return (written[1:] if written.startswith("一十") else written) or "零"


def in_wan(value: int) -> str:
    """Return a number of thousands in units of ten thousand: 12000 as 1.2."""
    return f"{value / LARGE:.1f}".removesuffix(".0")
