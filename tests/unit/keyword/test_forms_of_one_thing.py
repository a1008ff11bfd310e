"""The further terms by which a passage is found in whatever way a query writes percentages, dates, times and names."""

from __future__ import annotations

import pytest

from pipeline.keyword.terms import analyze


@pytest.mark.parametrize(
    ("texts", "term"),
    [
        (["37 %", "37 percent", "37 Prozent", "百分之三十七"], "percent:37"),
        (["12,5 %", "12.5 per cent", "百分之十二点五"], "percent:12.5"),
        (["7 марта 2023", "7 marzo 2023", "7 de março de 2023", "2023년 3월 7일", "7-Mar-2023"], "date:2023-03-07"),
        (["2023-03", "03/2023", "March 2023"], "date:2023-03"),
        (["5–8 March 2024", "March 5 to 8, 2024", "2024年3月5日至8日", "5. bis 8. März 2024"], "date:2024-03-06"),
        (["backup-2024-03-05.tar", "IMG_20240305_142233.jpg"], "date:2024-03-05"),
        (
            [
                *("90 minutes", "an hour and a half", "one and a half hours", "1h30", "1 hour 30 minutes", "1.5 hours"),
                *(
                    "一个半小时",
                    "1.5小时",
                    "90分钟",
                    "anderthalb Stunden",
                    "une heure et demie",
                    "полтора часа",
                    "1時間半",
                ),
            ],
            "span:90",
        ),
        (
            ["30 minutes", "half an hour", "半小时", "半个钟头", "30分鐘", "eine halbe Stunde", "mezz'ora", "30분"],
            "span:30",
        ),
        (
            [
                *(
                    "two weeks",
                    "14 days",
                    "fortnight",
                    "两周",
                    "14天",
                    "2 Wochen",
                    "zwei Wochen",
                    "deux semaines",
                    "dos semanas",
                ),
                *("due settimane", "duas semanas", "2 weken", "две недели", "14 дней"),
            ],
            "span:20160",
        ),
        (["18 months", "a year and a half", "一年半", "18个月", "1.5 years"], "span:18mo"),
        (["90后", "九零后", "九〇后"], "born:90"),
        (["17.45 Uhr", "午後5時45分", "오후 5시 45분", "5:45 pm", "17h45", "в 17.45"], "time:17:45"),
        (["l'università", "università"], "universita"),
        (["getUserByID", "get user by id"], "id"),
        (["Node.js", "nodejs"], "nodej"),
        (
            [
                *("6 grudnia 2017", "2017. december 6.", "6. joulukuuta 2017", "6. prosince 2017", "6 decembrie 2017"),
                *("6 Δεκεμβρίου 2017", "6 ديسمبر 2017", "ב-6 בדצמבר 2017", "6 दिसंबर 2017", "6 ธันวาคม 2560"),
                *("ngày 6 tháng 12 năm 2017", "平成29年12月6日", "民國106年12月6日", "2017 m. gruodžio 6 d."),
            ],
            "date:2017-12-06",
        ),
        (["十二月三日", "12月3日", "3 December"], "date:12-03"),
        (["2019Q3营收", "third quarter of 2019", "2019年第三季度", "T3 2019", "2019年 3분기"], "quarter:2019-3"),
        (["halb vier", "half past three", "15:30", "3.30 pm", "trois heures et demie", "в 15.30"], "time:15:30"),
        (
            ["Viertel vor vier", "dreiviertel vier", "kwart voor vier", "quarter to four", "cuatro menos cuarto"],
            "time:15:45",
        ),
        (["a las 21.45", "21.45 h", "21:45", "晚上9点三刻"], "time:21:45"),
        (["(415) 555-0187", "415.555.0187", "415 555 0187"], "4155550187"),
        (["089/233-96000", "089 23396000", "+49 89 23396000"], "8923396000"),
        (["00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5e", "001A.2B3C.4D5E", "001a2b3c4d5e"], "001a2b3c4d5e"),
        (["9131 0000 MA1F L2X3 7P", "91310000MA1FL2X37P"], "91310000ma1fl2x37p"),
        (["10 мм", "10мм"], "мм"),
        (["100 Ω", "100Ω", "阻值100Ω"], "ω"),
        (["GB 2760—2014", "GB2760-2014", "gb 2760"], "gb2760"),
        (["3.0.0-rc.2", "3.0.0rc2", "v3.0.0 RC 2"], "3.0.0-rc2"),
        (["E-bike", "ebike"], "ebik"),
        (["کتاب", "كتاب"], "كتاب"),
        (["١٢٣٤", "१२३४", "๑๒๓๔", "1234"], "1234"),
    ],
)
def it_gives_every_spelling_one_term(texts, term):
    assert [text for text in texts if term not in analyze(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        *("1/2000 in UK", "37 people", "5 and 8 apples", "the 3rd room of 4 quarters", "twice a day", "3 mines"),
        *("eines Tages", "due weeks later", "die drei", "15h30", "quatre heures et demie", "six heures moins le quart"),
        *("2024年的第三天", "三年级", "星期三", "上半年", "三月", "五分", "一天", "21世纪90年代"),
    ],
)
def it_names_nothing_else(text):
    assert not [term for term in analyze(text) if term.startswith(("date:", "percent:", "quarter:", "span:", "born:"))]


@pytest.mark.parametrize("text", ["半小时", "half an hour", "30 minutes"])
def it_takes_no_longer_duration_for_the_shorter_one_in_it(text):
    assert "span:30" in analyze(text)
    for longer in ("一个半小时", "an hour and a half", "90 minutes", "2 hours 30 minutes"):
        assert "span:30" not in analyze(longer)
