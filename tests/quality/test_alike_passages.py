"""Confidence among passages on one subject: twelve notes on accounts and passwords between some 350 other passages.

A question about them must not be called unanswerable, and one about another subject must. All passages are searched
together, in memory, with the built-in model.
"""

from __future__ import annotations

import time

import pytest

from chordwise.contract.answer import sureness
from pipeline.models.local_embedder import LocalEmbedder
from pipeline.ranking.confidence import Confidences
from tests.quality.test_first_places import CASES
from tests.support.corpora.queries import query_of
from tests.support.corpora.searches import Searches, plan_with

THRESHOLD = 0.4  # CHORDWISE_RECALL_DEGRADE_THRESHOLD
ENGLISH = """\
You can change your account password under Settings, Security. The old password is asked for once.
An account is locked after five wrong passwords. The help desk unlocks the account within an hour.
A password of an account must have twelve characters and may not be used again for a year.
Your account and your password are the same for mail, chat and the intranet.
Nobody may share an account or tell a password to others, not even to the help desk.
The account of a person who leaves is closed on the last day, and the password stops working at noon.
You sign in to your account with your staff number and password, from home through the VPN.
A guest account has a password that is valid for one day. Reception prints it.
A password manager is installed on every laptop. It fills in your account on known pages.
The account for the printer needs no password, because the badge is enough.
If your account was opened for a project, its password is kept by the project's owner.
You get a mail when somebody signs in to your account from a new device with the right password."""
CHINESE = """\
账户密码可以在设置的安全页面修改，修改时需要输入一次旧密码。
账户连续五次输错密码会被锁定，服务台在一小时内解锁账户。
账户的密码至少要有十二个字符，一年内不能重复使用旧密码。
邮箱、聊天和内网使用同一个账户和同一个密码。
任何人不得共用账户或把密码告诉别人，服务台也不例外。
员工离职当天账户关闭，密码在中午失效。
登录账户需要工号和密码，在家时要先连接虚拟专用网。
访客账户的密码只在当天有效，由前台打印。
每台笔记本电脑都装有密码管理器，可以自动填写账户密码。
打印机账户不需要密码，刷工卡即可。
为项目开设的账户，其密码由项目负责人保管。
有人在新设备上用正确密码登录账户时，您会收到邮件。"""
ANSWERED = [
    "Where do I set another password for my account?",
    "How do I recover the password of my account?",
    "how many wrong passwords until my account locks",
    "账户密码应该设置成什么样？",
    "哪里可以修改账户密码？",
    "怎么给账户换一个密码？",
]
NOT_ANSWERED = [
    "which wine goes well with grilled salmon",
    "how do I prune roses in early spring",
    "who won the football world cup in 1998",
    "红烧排骨要放多少酱油？",
    "谁获得了世界杯足球赛的冠军？",
]


@pytest.fixture(scope="module")
def searches() -> Searches:
    texts = [*ENGLISH.splitlines(), *CHINESE.splitlines(), *(case["passage"] for case in CASES)]
    return Searches(dict.fromkeys(texts), LocalEmbedder())


def surest(searches: Searches, question: str, method: str) -> float:
    query = query_of(question, plan=plan_with(retrieve={"method": method}), deadline_s=60.0, created_at=time.time())
    hits, arrived = searches.composed(query)
    sure = Confidences(question, hits, arrived.usable)
    return max((sureness(sure[each.chunk_id]) for each in hits[:10]), default=0.0)


@pytest.mark.parametrize("method", ["full_text", "hybrid"])
@pytest.mark.parametrize("question", ANSWERED)
def it_keeps_questions_that_many_passages_are_about(searches, question, method):
    assert surest(searches, question, method) >= THRESHOLD


@pytest.mark.parametrize("method", ["full_text", "hybrid"])
@pytest.mark.parametrize("question", NOT_ANSWERED)
def it_refuses_questions_on_another_subject(searches, question, method):
    assert surest(searches, question, method) < THRESHOLD
