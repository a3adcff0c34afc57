"""Attached files. https://www.redmine.org/projects/redmine/wiki/Rest_Attachments

A file has two sources and two ways out: the arguments and the answer, and, for callers on the hub's own machine, the
directory that operators allow.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Annotated, Any, Final

from pydantic import Field

from tools_app.packs.redmine import account, identity, pack, reasons, shapes, wiki, writing
from tools_app.packs.redmine.arguments import Id, Name, without_none
from tools_app.sdk import files, heavy
from tools_app.sdk.checker import rejected
from tools_app.sdk.context import Context
from tools_app.sdk.errors import InvalidArgumentsError, Problem, ToolError, UpstreamValidationError
from tools_app.sdk.examples import Example
from tools_app.sdk.hints import Hints

# In arguments and answers, which are kept and counted; files on disk can be larger.
MOST_BYTES: Final = 1024 * 1024
MOST_BYTES_ON_DISK: Final = 64 * 1024 * 1024
ATTACHMENT: Final = writing.Noun("attachment", "attachments", "Attachment", shapes.ATTACHMENT)
_CONTENT: Final = shapes.thing(**shapes.ATTACHMENT["properties"], text=shapes.TEXT, base64=shapes.TEXT)
_TAGS: Final = ("redmine", "attachments")
_WRITES: Final = (*_TAGS, "write")
# What texts do not have.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_NOT_IN_NAMES: Final = re.compile(r'[\x00-\x1f/\\?%*:|"\'<>]+')

_Attachment = Annotated[Id, Field(description="Attachment id, as issues and wiki pages list it.")]
_FilePath = Annotated[str, Field(min_length=1, max_length=1000)]
_Content = Annotated[str, Field(max_length=MOST_BYTES * 3 // 2)]


@pack.tool(
    title="Get attachment",
    category="attachments",
    tags=_TAGS,
    keywords=(
        "read an attached file, log, screenshot, document, download, open",
        "添付ファイルを読む 開く ダウンロード ログ 画面",
    ),
    hints=Hints(read_only=True),
    examples=[Example("The text of a log", {"id": 1}, shown_only=True)],
    output_schema=shapes.one("attachment", _CONTENT),
)
async def get_attachment(ctx: Context, id: _Attachment) -> dict[str, Any]:
    """Get a file of up to 1 MiB: text as text, others as base64."""
    about = await _about(ctx, id)
    size = about.get("filesize")
    if isinstance(size, int) and size > MOST_BYTES:
        raise UpstreamValidationError(
            f"Failed to get attachment: it has {size:,} bytes, and answers have at most {MOST_BYTES:,}",
            next_step="On the hub's own machine, save_attachment saves it as a file.",
        )
    content = await _download(ctx, id, MOST_BYTES)
    text = await heavy.by_size(content, _as_text, content)
    given = {"text": text} if text is not None else {"base64": base64.b64encode(content).decode()}
    return {"attachment": ATTACHMENT.shown(about) | given}


@pack.tool(
    title="Save attachment",
    category="attachments",
    tags=_WRITES,
    keywords=("download a file to disk, store, export, large file", "添付ファイルを保存 ダウンロード 取り出す"),
    hints=Hints(destructive=False),
    examples=[Example("Save a report", {"id": 1, "file_path": "report.pdf"}, shown_only=True)],
    needs_files=True,
    output_schema=shapes.written("attachment"),
)
async def save_attachment(
    ctx: Context,
    id: _Attachment,
    file_path: Annotated[
        _FilePath | None, "New file, in the directory that operators allow; default: its name."
    ] = None,
) -> dict[str, Any]:
    """Save an attachment as a new file. For callers on the hub's machine."""
    about = await _about(ctx, id)
    name = file_path if file_path is not None else _NOT_IN_NAMES.sub("_", str(about.get("filename") or id))
    content = await _download(ctx, id, MOST_BYTES_ON_DISK)
    await files.write(ctx, name, content, "Use get_attachment, which returns the content.")
    message = f"Attachment #{id} was successfully saved as {name} ({len(content):,} bytes)."
    return writing.done(message, attachment=ATTACHMENT.shown(about))


@pack.tool(
    title="Attach file",
    category="attachments",
    tags=_WRITES,
    keywords=("upload a file, add a screenshot, log, document, evidence", "ファイルを添付 アップロード 資料を付ける"),
    hints=Hints(destructive=False),
    examples=[
        Example("A text", {"issue_id": 1, "filename": "trace.txt", "text": "Traceback …"}, shown_only=True),
        Example("A local file", {"issue_id": 1, "file_path": "report.pdf", "notes": "The report"}, shown_only=True),
    ],
    output_schema=shapes.written("attachment"),
)
async def attach_file(
    ctx: Context,
    issue_id: Annotated[Id | None, "Attach to this issue."] = None,
    project_id: Annotated[Name | None, "Or, with wiki_page, to a wiki page of this project."] = None,
    wiki_page: wiki.Title | None = None,
    filename: Annotated[str | None, Field(min_length=1, max_length=255), "Required without file_path."] = None,
    text: Annotated[_Content | None, "Content: this,"] = None,
    content: Annotated[_Content | None, Field(alias="base64"), "or this, for up to 1 MiB,"] = None,
    file_path: Annotated[_FilePath | None, "or a file in the directory that operators allow."] = None,
    description: Annotated[str | None, Field(max_length=255), "What it is."] = None,
    notes: Annotated[str | None, Field(min_length=1, max_length=200_000), "A comment on the issue."] = None,
) -> dict[str, Any]:
    """Attach a file to an issue or a wiki page."""
    if (issue_id is None) is (project_id is None or wiki_page is None):
        message = "Give either issue_id, or project_id and wiki_page"
        raise InvalidArgumentsError(problems=[Problem("", message, "issue_id, or project_id and wiki_page")])
    data, name = await _content(ctx, filename, text, content, file_path)
    await identity.check(ctx)
    if issue_id is None:
        page = await wiki.page_of(ctx, project_id or "", wiki_page or "")
        upload = await _upload(ctx, data, name, description)
        await page.change(ctx, {"uploads": [upload.sent]})
        attached = (await wiki.page_of(ctx, page.project, page.title)).attachments
        return _attached(upload, attached, f"wiki page {page.title}")
    # Read first: what is uploaded for an issue that is not there would stay in Redmine for a day.
    await account.one(ctx, "issues", issue_id, name="issue", operation="get issue", resource="Issue")
    upload = await _upload(ctx, data, name, description)
    body = {"issue": without_none({"uploads": [upload.sent], "notes": notes})}
    async with reasons.with_reasons(ctx, "update issue", issue=issue_id):
        await ctx.http.put("issues", issue_id, operation="update issue", resource="Issue", json=body)
    try:
        issue = await account.one(
            ctx, "issues", issue_id, name="issue", operation="get issue", resource="Issue", include="attachments"
        )
    except ToolError as error:
        warning = f"The result could not be verified: {error.message}"
        return writing.done(f"{name} was attached to issue #{issue_id}.", warnings=[warning])
    return _attached(upload, shapes.parts_of(issue, "attachments"), f"issue #{issue_id}")


@pack.tool(
    title="Delete attachment",
    category="attachments",
    tags=_WRITES,
    keywords=("remove a file, wrong attachment, erase", "添付ファイルを消す 取り除く"),
    hints=Hints(destructive=True, idempotent=True),
    examples=[Example("Delete for good", {"id": 1}, shown_only=True)],
    output_schema=shapes.written(),
)
async def delete_attachment(ctx: Context, id: _Attachment) -> dict[str, Any]:
    """Delete an attached file for good."""
    return await writing.delete(ctx, ATTACHMENT, id)


class _Upload:
    """A file that Redmine has, and that belongs to nothing yet."""

    def __init__(self, id: Any, sent: dict[str, Any]) -> None:
        self.id = id
        self.sent = sent


async def _about(ctx: Context, number: int) -> dict[str, Any]:
    return await account.one(
        ctx, "attachments", number, name="attachment", operation="get attachment", resource="Attachment"
    )


async def _download(ctx: Context, number: int, most: int) -> bytes:
    return await ctx.http.get_bytes(
        *("attachments", "download", number),
        operation="get attachment",
        resource="Attachment",
        resource_id=number,
        suffix="",
        most_bytes=most,
    )


def _as_text(content: bytes) -> str | None:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


async def _content(
    ctx: Context, filename: str | None, text: str | None, encoded: str | None, file_path: str | None
) -> tuple[bytes, str]:
    """The bytes of a file to attach, and its name.

    Raises:
        ToolError: there is not exactly one source, or it cannot be read.
    """
    if sum(source is not None for source in (text, encoded, file_path)) != 1:
        message = "Give exactly one of text, base64 and file_path"
        raise InvalidArgumentsError(problems=[Problem("", message, "text, base64 or file_path")])
    if file_path is not None:
        most, source = MOST_BYTES_ON_DISK, "file_path"
        data = await files.read(ctx, file_path, most, "Send the content, as text or base64.")
        filename = filename or file_path.rpartition("/")[2]
    else:
        most, source = MOST_BYTES, "text" if text is not None else "base64"
        data = text.encode() if text is not None else await heavy.by_size(encoded, _decoded, encoded or "")
    if len(data) > most:
        raise InvalidArgumentsError(problems=[rejected([source], "the file is too large", f"at most {most:,} bytes")])
    if not filename:
        raise InvalidArgumentsError(problems=[Problem("/filename", "filename is required", "the name of the file")])
    return data, filename


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgumentsError(problems=[rejected(["base64"], "it is not base64")]) from None


async def _upload(ctx: Context, data: bytes, filename: str, description: str | None) -> _Upload:
    response = await ctx.http.post(
        "uploads",
        operation="attach file",
        params={"filename": filename},
        content=data,
        content_type="application/octet-stream",
    )
    upload = shapes.part_of(response.data, "upload")
    if not isinstance(upload.get("token"), str):
        raise UpstreamValidationError("Failed to attach file: Redmine did not return a token for it")
    return _Upload(
        upload.get("id"), without_none({"token": upload["token"], "filename": filename, "description": description})
    )


def _attached(upload: _Upload, attachments: list[dict[str, Any]], place: str) -> dict[str, Any]:
    """The answer, after looking whether it is there.

    Raises:
        UpstreamValidationError: it is not.
    """
    name = upload.sent["filename"]
    # Redmine before 3.4 returns no id; the new one is then the last of that name.
    same = [one for one in attachments if one.get("id") == upload.id or (not upload.id and one.get("filename") == name)]
    if not same:
        raise UpstreamValidationError(
            f"{name} was not attached to {place}: Redmine accepted the request but ignored it",
            next_step="The account of this connection may lack the permission to edit it.",
        )
    shown = ATTACHMENT.shown(same[-1])
    return writing.done(f"{shown.get('filename', name)} was successfully attached to {place}.", attachment=shown)
