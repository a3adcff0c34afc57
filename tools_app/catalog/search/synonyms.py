"""Synonyms for queries, in English and Japanese.

General words for what tools do and what they work on; nothing here names a tool. Vocabulary of a pack belongs into its
tags, which are searched too, in any language.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from tools_app.catalog.search.words import is_ending, is_without_spaces, pairs, pieces, stem

# Weight of a synonym, relative to the word itself.
ALIKE: Final = 0.5
# Weight of a bigram that is a common ending.
_ENDING: Final = 0.2

# Each line is a group of synonyms.
_ENGLISH: Final = """
create add new make register open start onboard raise report submit file set establish
delete remove erase drop discard purge throw destroy wipe rid obsolete clear
update change edit modify correct rename adjust set move fix push postpone extend mark lock
replace overwrite substitute exchange
get show read view see display look fetch retrieve detail describe inspect inside
list all enumerate which overview browse kinds every everything
search find look query lookup locate where
stop cancel abort kill terminate halt end interrupt stuck hang spin endless
activate enable turn switch on publish live launch schedule
deactivate disable pause suspend off turn offline maintenance
retry again repeat rerun redo once more attempt try second
archive hide shelve finished away
unarchive restore unhide bring back recover
explain why reason cause diagnose root happen
fail failed error problem broken break crash wrong fault die
execution run job history past process
workflow automation flow pipeline process sync scenario
node step stage
connections graph wired links topology after before
output input data rows items came
issue ticket bug task defect story request incident
comment note notes remark reply discussion say said conversation
user people person member account colleague employee login contractor freelancer staff
mail email address surname firstname lastname user
time hour hours booking booked timesheet worked overtime long minute
entry log record booking track book
activity work kinds
watch watcher notify follow subscribe loop informed tell
priority urgency urgent importance severity
version milestone release
tracker type kind kinds category
status state closed close done complete resolve
due deadline overdue late date
assign assigned assignee owner responsible hand take taken
project space initiative programme subproject client
web internet online site
page site article link url document
news latest current recent
answer response result reply output
rest remaining continue next more part
definition define meaning term glossary abstract sentence
file disk import upload load export json
calculate compute math arithmetic sum add subtract multiply divide number figures
plus sum add total
minus subtract difference
times multiply product
percent percentage ratio divide multiply calculate
convert calculate
summary overview status
field fields attribute property column
value values choices options possible
echo ping alive health connection
call invoke execute run
large big size huge long
duration took take elapsed long
succeed succeeded success successful status
message mail email
write wrote written text
wiki documentation manual notes
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
出力 output answer result
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
案件 project issue
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
終了 stop end close
強制 stop
打ち切 stop cancel
キャンセル cancel stop
やめ stop deactivate
終わらない stop run
止めて stop deactivate
止めてお deactivate pause
一時停止 pause deactivate
休止 pause deactivate
オフ off deactivate
オン on activate
起動 start activate
開始 start activate
再開 activate resume
稼働 activate run
公開 publish activate
本番 activate live
動かし activate run
動かない deactivate
始め start activate
始ま start activate
自動で activate automation
もう一回 retry again
再試行 retry
リトライ retry
再度 retry again
走らせ run retry
捨て delete
廃棄 delete
除去 remove
外す remove
外し remove
解除 remove
抹消 delete
不要 delete
取り下げ delete
直し correct update
直す correct update
訂正 correct update
書き換え update
延ば update change
延長 update
ずらす update
ずらし update
ロック update lock
完了 close status update
閉じ close update
済み closed status
対応済 closed
未対応 open status
未完了 open status
差し替え replace
置き換え replace
入れ替え replace
上書き replace update
立ち上げ create start
用意 create
発行 create
作って create
作りたい create
設け create
報告 report create issue
申請 create request
依頼 create request
加入 add
付け log add
つけ log add
入れ add
戻し restore unarchive
戻す restore unarchive
復活 restore unarchive
しまって archive
片付け archive
見せ show get
教えて show list
眺め list show
ざっと list overview
洗い出 list
並べ list
すべて list all
全部 list all
中身 show detail
内容 show content
調査 search explain
見つけ search find
どこか search where
どこに search where
何が起き explain get
経緯 history journals
過去 history past list
処理 execution workflow
フロー workflow
シナリオ workflow
スケジュール schedule
ステップ node step
返した output result
データ data
次に connections next
つながって connections graph
つなが connections graph
失敗した failed error
落ちた failed error
クラッシュ crash error
止まった stopped error
壊れ broken error
要望 issue feature
問い合わせ issue
依頼事項 issue
作業項目 issue
締め切り due date deadline
締切 due date deadline
納期 due date deadline
期限切れ due date overdue
遅れ due overdue
日程 date
やりとり comments notes
やり取り comments notes
議論 discussion notes
発言 comments notes
メモ note
添付 attachment file
引き継 assigned update
任せ assigned
渡す assigned
緊急 priority urgency
重大 priority severity
段階 priority level
レベル level
リリース version release
進捗 status progress
進み具合 status progress
知らせ notify watch
フォロー watch follow
購読 watch subscribe
人員 user
従業員 user employee
派遣 user
部長 user
上司 user
担当者 user assigned
名前 name
氏名 name user
メールアドレス mail user
ログイン login user
パスワード password user
権限 role user
アドレス address url
残業 overtime time
勤務 time hours
働い hours time work
労働 time hours
使った spent time
分類 activity category
合計 sum add
足す add
引く subtract
掛け multiply
割る divide
パーセント percent calculate
割合 percent calculate
消費税 tax calculate
いくら calculate number
平均 calculate
最新 latest news
情報 information
とは definition meaning
一言 definition short
って誰 who definition
って何 what definition
誰か user who
辞書 definition
百科 definition abstract
資料 document
手順 wiki document
マニュアル wiki document
書いた wiki written
リンク url page
ブラウザ web page
ググ web search
開いて read open
残り rest part
途中 part
切れた cut part
次の部分 next part
大きい large
大きな large
長い long
接続確認 echo connection
応答 answer echo
疎通 echo connection
送り返 echo
"""


def alike(word: str) -> frozenset[str]:
    """Synonyms of an English word stem."""
    return _english().get(word, frozenset())


def translated(piece: str) -> Iterator[dict[str, float]]:
    """The concepts of text without spaces: English translations first, then its bigrams.

    The longest known words match first. The bigrams are always included: descriptions may be in this language.
    """
    table, longest = _japanese()
    at = 0
    while at < len(piece):
        for length in range(min(longest, len(piece) - at), 1, -1):
            if (english := table.get(piece[at : at + length])) is not None:
                # The first is the meaning; the others are possible meanings.
                yield {word: 1.0 if not nth else ALIKE for nth, word in enumerate(english)}
                at += length
                break
        else:
            at += 1
    yield from ({pair: _ENDING if is_ending(pair) else 1.0} for pair in pairs(piece))


@cache
def _english() -> dict[str, frozenset[str]]:
    groups: dict[str, set[str]] = {}
    for line in _ENGLISH.strip().splitlines():
        words = {stem(word) for word in line.split()}
        for word in words:
            groups.setdefault(word, set()).update(words - {word})
    return {word: frozenset(members) for word, members in groups.items()}


@cache
def _japanese() -> tuple[dict[str, tuple[str, ...]], int]:
    table = {}
    for line in _JAPANESE.strip().splitlines():
        word, *english = line.split()
        (piece,) = (part for part in pieces(word) if is_without_spaces(part))
        table[piece] = tuple(dict.fromkeys(map(stem, english)))
    return table, max(map(len, table))
