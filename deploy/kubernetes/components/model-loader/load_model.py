"""Loads models' files from the Hugging Face hub or from a bucket into folders.

Made for a Job that may be stopped at any moment and started again: a complete file is kept, a part
is continued from where it ends, and a file gets its name only when its size is right, and its
SHA-256 where the hub tells it. Python's own library only, so that a plain image suffices.

    SOURCE       hf://owner/name, hf://owner/name@revision, or s3://bucket/folder
    DESTINATION  folder to fill; with several sources, as many folders, separated by spaces
    HF_TOKEN     for models that want one
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_ENDPOINT_URL  for buckets
    PARALLEL     files at once (4)
"""

import concurrent.futures
import datetime
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import re
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree
from dataclasses import dataclass

PIECE = 8 * 1024 * 1024
PATIENCE_S = 60
ATTEMPTS = 6
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


class Unusable(Exception):
    """Trying again does not help."""


@dataclass(frozen=True)
class RemoteFile:
    path: str
    size: int
    # None where the source does not tell.
    sha256: str | None
    # Differs for other content of the same name, so that parts are not mixed.
    identity: str


class KeepKeysHome(urllib.request.HTTPRedirectHandler):
    """The hub sends large files' readers to other hosts, for whom its token is not meant."""

    def redirect_request(self, request, response, code, message, headers, address):
        redirected = super().redirect_request(request, response, code, message, headers, address)
        if redirected is not None and redirected.host != request.host:
            redirected.remove_header("Authorization")
        return redirected


OPENER = urllib.request.build_opener(KeepKeysHome)


def get(address, headers):
    try:
        return OPENER.open(urllib.request.Request(address, headers=headers), timeout=PATIENCE_S)
    except urllib.error.HTTPError as error:
        # Denied and missing stay so; too many requests and broken servers pass.
        if error.code in (400, 401, 403, 404):
            raise Unusable(f"{address}: {error.code} {error.reason}") from error
        raise


class Hub:
    def __init__(self, place, environment):
        self.repository, _, self.revision = place.partition("@")
        self.revision = self.revision or "main"
        self.endpoint = environment.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
        token = environment.get("HF_TOKEN")
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def files(self):
        """All files of one commit: a branch that moves meanwhile must not give half of each."""
        described = self.json(
            f"{self.endpoint}/api/models/{self.repository}/revision/{self.quoted(self.revision)}"
        )[0]
        self.revision = described["sha"]
        address = (
            f"{self.endpoint}/api/models/{self.repository}/tree/{self.revision}?recursive=true"
        )
        while address:
            entries, address = self.json(address)
            for entry in entries:
                if entry["type"] == "file":
                    large = entry.get("lfs") or {}
                    sha256 = large.get("oid")
                    yield RemoteFile(entry["path"], entry["size"], sha256, sha256 or entry["oid"])

    def open(self, file, start):
        address = (
            f"{self.endpoint}/{self.repository}/resolve/{self.revision}/{self.quoted(file.path)}"
        )
        return get(address, self.headers | {"Range": f"bytes={start}-"})

    def json(self, address):
        """An answer, and the address of its next page if there is one."""
        with get(address, self.headers) as response:
            following = re.search(r'<([^>]+)>;\s*rel="next"', response.headers.get("Link", ""))
            return json.load(response), following and following.group(1)

    @staticmethod
    def quoted(path):
        return urllib.parse.quote(path)


class Bucket:
    def __init__(self, place, environment):
        self.name, _, folder = place.partition("/")
        self.folder = folder.strip("/") + "/" if folder.strip("/") else ""
        self.region = environment.get("AWS_REGION", "us-east-1")
        endpoint = environment.get("AWS_ENDPOINT_URL", f"https://s3.{self.region}.amazonaws.com")
        self.endpoint = endpoint.rstrip("/")
        self.key = environment.get("AWS_ACCESS_KEY_ID")
        self.secret = environment.get("AWS_SECRET_ACCESS_KEY")

    def files(self):
        token = None
        while True:
            query = {"list-type": "2", "prefix": self.folder}
            if token:
                query["continuation-token"] = token
            with self.get(f"/{self.name}", query, {}) as response:
                page = xml.etree.ElementTree.parse(response).getroot()
            space = page.tag[: page.tag.index("}") + 1] if page.tag.startswith("{") else ""
            for entry in page.iter(f"{space}Contents"):
                key = entry.findtext(f"{space}Key")
                if not key.endswith("/"):
                    identity = entry.findtext(f"{space}ETag", "").strip('"')
                    size = int(entry.findtext(f"{space}Size"))
                    yield RemoteFile(key.removeprefix(self.folder), size, None, identity)
            token = page.findtext(f"{space}NextContinuationToken")
            if not token:
                return

    def open(self, file, start):
        return self.get(f"/{self.name}/{self.folder}{file.path}", {}, {"Range": f"bytes={start}-"})

    def get(self, path, query, headers):
        path = urllib.parse.quote(path)
        encoded = urllib.parse.urlencode(
            sorted(query.items()), quote_via=urllib.parse.quote, safe=""
        )
        address = f"{self.endpoint}{path}" + (f"?{encoded}" if encoded else "")
        if self.key and self.secret:
            host = urllib.parse.urlsplit(self.endpoint).netloc
            now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
            headers = self.signed(host, path, encoded, headers, now)
        return get(address, headers)

    def signed(self, host, path, query, headers, now):
        """AWS's signature, version 4, of a GET without a body."""
        headers = headers | {"Host": host, "x-amz-content-sha256": EMPTY_SHA256, "x-amz-date": now}
        names = sorted(headers, key=str.lower)
        lines = "".join(f"{name.lower()}:{headers[name]}\n" for name in names)
        listed = ";".join(name.lower() for name in names)
        request = "\n".join(["GET", path, query, lines, listed, EMPTY_SHA256])
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        hashed = hashlib.sha256(request.encode()).hexdigest()
        to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashed])
        key = f"AWS4{self.secret}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        credential = f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}"
        return headers | {
            "Authorization": f"{credential},SignedHeaders={listed},Signature={signature}"
        }


def source_of(place, environment):
    kind, _, rest = place.partition("://")
    if kind == "hf" and rest:
        return Hub(rest, environment)
    if kind == "s3" and rest:
        return Bucket(rest, environment)
    raise Unusable(f"SOURCE is {place!r}, not hf://owner/name or s3://bucket/folder")


def inside(folder, path):
    """Where a file goes; a name must not lead out of the folder."""
    target = (folder / path).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise Unusable(f"{path!r} leads out of the folder")
    return target


def is_complete(folder, file):
    target = inside(folder, file.path)
    return target.is_file() and target.stat().st_size == file.size


def part_of(target, file):
    return target.with_name(f"{target.name}.{file.identity[:12]}.part")


def load(source, folder, file):
    """One file, with several attempts; each goes on where the last one ended."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return fetch(source, folder, file)
        except (OSError, EOFError, http.client.HTTPException) as error:
            if attempt == ATTEMPTS:
                raise
            print(f"{file.path}: {error}; going on in {2**attempt} s")
            time.sleep(2**attempt)


def fetch(source, folder, file):
    target = inside(folder, file.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(target, file)
    digest = hashlib.sha256()
    with part.open("ab+") as output:
        output.seek(0)
        while piece := output.read(PIECE):
            digest.update(piece)
        if output.tell() > file.size:
            output.truncate(0)
            digest = hashlib.sha256()
        start = output.seek(0, os.SEEK_END)
        if start < file.size:
            with source.open(file, start) as response:
                if start and response.status != 206:
                    # It sends everything again.
                    output.truncate(0)
                    digest = hashlib.sha256()
                while piece := response.read(PIECE):
                    output.write(piece)
                    digest.update(piece)
        size = output.tell()
        output.flush()
        os.fsync(output.fileno())
    if size < file.size:
        raise EOFError(f"ended after {size} of {file.size} bytes")
    wrong_hash = file.sha256 is not None and digest.hexdigest() != file.sha256
    if size > file.size or wrong_hash:
        part.unlink()
        raise EOFError("not what was announced, size or SHA-256 differ")
    part.rename(target)
    print(f"{file.path}: {file.size:,} bytes")


def main(environment):
    places = environment["SOURCE"].split()
    folders = environment["DESTINATION"].split()
    if not places or len(places) != len(folders):
        raise Unusable(f"{len(places)} sources in SOURCE, {len(folders)} folders in DESTINATION")
    for place, folder in zip(places, folders):
        load_all(source_of(place, environment), pathlib.Path(folder), environment)


def load_all(source, folder, environment):
    folder.mkdir(parents=True, exist_ok=True)
    files = list(source.files())
    if not files:
        raise Unusable("the source has no files")
    missing = [file for file in files if not is_complete(folder, file)]
    begun = (part_of(inside(folder, file.path), file) for file in missing)
    there = sum(part.stat().st_size for part in begun if part.exists())
    wanted = sum(file.size for file in missing) - there
    print(f"{len(files)} files, {len(missing)} to load, {wanted:,} bytes")
    if wanted > shutil.disk_usage(folder).free:
        raise Unusable(f"{wanted:,} bytes do not fit: {shutil.disk_usage(folder).free:,} are free")
    with concurrent.futures.ThreadPoolExecutor(int(environment.get("PARALLEL", "4"))) as pool:
        list(pool.map(lambda file: load(source, folder, file), missing))
    print(f"complete: {folder}")


if __name__ == "__main__":
    try:
        main(os.environ)
    except Unusable as error:
        sys.exit(str(error))
