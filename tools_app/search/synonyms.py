"""Words that mean the same where people ask for tools, in English and Japanese.

General words for what tools do and what they work on; nothing here names a tool. What is special to a pack belongs
into its tags, which are searched too, in whatever language they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from tools_app.search.words import is_without_spaces, pairs, pieces, stem

# How much less than the word itself a word counts that means the same.
ALIKE: Final = 0.5

# Each line holds words that may stand for each other.
_ENGLISH: Final = """
create add new make register open start onboard
delete remove erase drop discard purge throw destroy
update change edit modify correct rename adjust set move fix
get show read view see display look fetch retrieve detail
list all enumerate which overview browse kinds
search find look query lookup
stop cancel abort kill terminate halt end
activate enable turn switch on publish
deactivate disable pause suspend off turn
retry again repeat rerun redo once more
archive hide shelve finished
unarchive restore unhide bring back recover
explain why reason cause diagnose root
fail failed error problem broken break crash wrong fault
execution run job history past
workflow automation flow pipeline process sync
node step
connections graph wired links topology
issue ticket bug task defect story
comment note notes remark reply discussion
user people person member account colleague employee
time hour hours booking booked timesheet worked overtime
entry log record booking
watch watcher notify follow subscribe
priority urgency urgent importance severity
version milestone release
tracker type kind kinds category
status state closed close
assign assigned assignee owner responsible
project space
web internet online site
page site article link url document
answer response result reply
definition define meaning term glossary abstract
file disk import upload
calculate compute math arithmetic sum add subtract multiply divide number figures
summary overview status
field fields attribute property column
echo ping alive health
call invoke execute run
large big size huge
long duration took take elapsed
succeed succeeded success successful status
message mail email
"""

# Japanese → English.
_JAPANESE: Final = """
検索 search find
探す search find
探し search find
調べ search find
全文 search words
一覧 list
履歴 list history
種類 list type
種別 type tracker list
選択肢 list values
どんな list
取得 get show
表示 show get
詳細 get detail
確認 get show list
見る get show list
見たい get show list
知りたい list show
読む read
読みたい read
作成 create
作る create
追加 add create
加え add
新規 new create
新しい new create
登録 register create
起票 create issue
更新 update
変更 update change
変え update change
修正 update correct
編集 update edit
削除 delete
消す delete
消去 delete
消し delete
取り消 cancel delete
停止 stop deactivate
中止 stop
止め stop
止ま stop
中断 stop
有効 activate enable
無効 deactivate disable
再実行 retry execution
やり直 retry again
もう一度 retry again
保管 archive
アーカイブ archive
復元 unarchive restore
元に戻 unarchive restore
説明 explain
原因 explain why cause
理由 explain why reason
失敗 fail error
異常 fail error
エラー error fail
障害 error issue
不具合 bug issue
バグ bug issue
実行 execution run
ジョブ execution job
自動化 workflow automation
自動処理 workflow execution
ワークフロー workflow
ノード node
入力 input
出力 output
接続 connections
つながり connections graph
構成 graph settings
設定 settings
ファイル file
取り込 import file
読み込 import file
チケット issue ticket
課題 issue task
タスク issue task
案件 issue project
コメント comment notes
注記 notes
担当 assigned
割り当て assigned
期限 due date
期日 due date
優先 priority
重要度 priority
バージョン version
マイルストーン version milestone
トラッカー tracker
状態 status
ステータス status
プロジェクト project
ユーザー user
利用者 user
社員 user account
メンバー user members
退職者 user
同僚 user
アカウント user account
ウォッチャー watcher watch
通知 watch notify
作業時間 time hours
時間 time hours
工数 time hours
集計 total hours
記録 log entry create
作業 time work
カスタムフィールド custom field
項目 field
インターネット web internet
ネット web
ウェブ web
サイト web page
ページ page
記事 page
要約 read summary
本文 page text read
ニュース news search
ウィキ wiki
用語 definition term
意味 definition meaning
定義 definition
回答 answer
結果 result answer
続き read part pages
長すぎ large
大きすぎ large
計算 calculate
足し算 add calculate
引き算 subtract calculate
掛け算 multiply calculate
割り算 divide calculate
数値 number
文書 document
メール mail message
送信 send
ダウンロード download
アップロード upload file
予定 calendar event
会議 meeting event
顧客 customer
注文 order
請求 invoice
支払 payment
在庫 stock inventory
天気 weather
翻訳 translate
地図 map
画像 image picture
"""


def alike(word: str) -> frozenset[str]:
    """What else an English word, without its ending, may be called."""
    return _english().get(word, frozenset())


def translated(piece: str) -> Iterator[dict[str, float]]:
    """What is written without spaces, thing by thing: the English for it, and after that its pairs.

    Of the words that are known, the longest first. The pairs count besides: there may be tools that are described in
    this language.
    """
    table, longest = _japanese()
    at = 0
    while at < len(piece):
        for length in range(min(longest, len(piece) - at), 1, -1):
            if (english := table.get(piece[at : at + length])) is not None:
                # The first is what it means; the others are what it may mean.
                yield {word: 1.0 if not nth else ALIKE for nth, word in enumerate(english)}
                at += length
                break
        else:
            at += 1
    yield from ({pair: 1.0} for pair in pairs(piece))


@cache
def _english() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for line in _ENGLISH.strip().splitlines():
        words = {stem(word) for word in line.split()}
        for word in words:
            found.setdefault(word, set()).update(words - {word})
    return {word: frozenset(others) for word, others in found.items()}


@cache
def _japanese() -> tuple[dict[str, tuple[str, ...]], int]:
    table = {}
    for line in _JAPANESE.strip().splitlines():
        word, *english = line.split()
        (piece,) = (one for one in pieces(word) if is_without_spaces(one))
        table[piece] = tuple(dict.fromkeys(map(stem, english)))
    return table, max(map(len, table))
