"""Uploading: what a hub is sent, told by one that runs in this test, and what is said when it refuses or is not there."""

import base64
import json
import os
import socket
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from selfguide.cli.main import main
from selfguide.errors import SelfguideError
from selfguide.files import write_json
from selfguide.hub import push
from tiny_models import WORDS

NAME = "someone/my-encoder"
TOKEN = "hf_of_this_test"


@dataclass
class Hub:
    """What the hub has been told, and how it is to answer."""

    address: str = ""
    created: list[dict] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    stored: dict[str, bytes] = field(default_factory=dict)
    """Large files by their hash; in ``files`` once they are committed."""
    messages: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)
    asked: Counter = field(default_factory=Counter)
    answers: dict[str, int] = field(default_factory=dict)
    """Part of an address -> status to answer with, whatever is asked."""


class Answers(BaseHTTPRequestHandler):
    """The few addresses that creating a repository and committing files to it needs."""

    hub: Hub

    def log_message(self, *arguments):
        """Nothing on stderr."""

    def answer(self, value=None, status=200):
        body = json.dumps({} if value is None else value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status >= 400:
            self.send_header("X-Error-Message", f"this hub says {status}")
        self.end_headers()
        self.wfile.write(body)

    def respond(self, body):
        self.hub.asked[f"{self.command} {self.path}"] += 1
        for part, status in self.hub.answers.items():
            if part in self.path:
                return self.answer({"error": f"this hub says {status}", "url": f"{self.hub.address}/{NAME}"}, status)
        address = f"/api/models/{NAME}"
        if self.path == "/api/repos/create":
            self.hub.created.append(json.loads(body))
            return self.answer({"url": f"{self.hub.address}/{NAME}"})
        if self.path == "/api/validate-yaml":
            return self.answer({"errors": [], "warnings": []})
        if self.path == f"{address}/preupload/main":
            names = [file["path"] for file in json.loads(body)["files"]]
            return self.answer(
                {"files": [{"path": name, "uploadMode": mode_of(name), "shouldIgnore": False} for name in names]}
            )
        if self.path == f"/{NAME}.git/info/lfs/objects/batch":
            return self.answer(
                {"transfer": "basic", "objects": [self.place_for(item) for item in json.loads(body)["objects"]]}
            )
        if self.path == f"{address}/commit/main":
            self.commit([json.loads(line) for line in body.splitlines()])
            return self.answer({"success": True, "commitOid": "0" * 40, "commitUrl": f"{self.hub.address}/{NAME}/commit/0"})
        return self.answer({"error": f"{self.path} is not known"}, 404)

    def place_for(self, item):
        return {**item, "actions": {"upload": {"href": f"{self.hub.address}/store/{item['oid']}"}}}

    def commit(self, lines):
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                self.hub.messages.append(value["summary"])
            elif line["key"] == "file":
                self.hub.files[value["path"]] = base64.b64decode(value["content"])
            else:
                assert line["key"] == "lfsFile"
                self.hub.files[value["path"]] = self.hub.stored[value["oid"]]

    def do_POST(self):
        self.hub.tokens.add(self.headers.get("Authorization"))
        self.respond(self.rfile.read(int(self.headers["Content-Length"])))

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.hub.stored[self.path.rsplit("/", 1)[-1]] = body
        self.answer(status=self.hub.answers.get("/store/", 200))

    def do_GET(self):
        self.respond(b"")


def mode_of(name):
    """As the real hub decides: weights are large files."""
    return "lfs" if name.endswith(".safetensors") else "regular"


@pytest.fixture
def hub():
    """A hub on this machine."""
    state = Hub()
    handler = type("Bound", (Answers,), {"hub": state})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        state.address = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield state
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path):
    """Some of what a trained folder holds."""
    path = tmp_path / "trained"
    (path / "1_Pooling").mkdir(parents=True)
    (path / "selfguide").mkdir()
    write_json(path / "config.json", {"model_type": "bert"})
    write_json(path / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True})
    (path / "README.md").write_text("---\ntags: []\n---\n# Encoder\n", encoding="utf-8")
    (path / "selfguide" / "metrics.jsonl").write_text('{"step": 1}\n')
    (path / "selfguide" / "scores.jsonl").write_text("")
    (path / "model.safetensors").write_bytes(bytes(range(256)) * 40)
    return path


def contents_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


PUSH = """
import sys
from pathlib import Path
from selfguide.errors import SelfguideError
from selfguide.hub import push
try:
    print(push(Path(sys.argv[1]), sys.argv[2], private=sys.argv[3] == "private"))
except SelfguideError as error:
    print(error)
    sys.exit(3)
"""


def push_to(address, folder, *, name=NAME, private=False, token=TOKEN):
    """Upload in a process of its own: the address and the offline mode are read once in a process; gives code and output."""
    variables = {
        **os.environ,
        "HF_ENDPOINT": address,
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_XET": "1",  # its large files go to a storage service of its own kind, those of Git LFS anywhere
        "HF_HOME": str(folder.parent / "home"),
        "HF_TOKEN": token,
    }
    command = [sys.executable, "-c", PUSH, str(folder), name, "private" if private else "public"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 3), done.stderr
    return done.returncode, done.stdout.rstrip("\n")


# A hub that answers


def test_every_file_arrives_as_it_is(hub, folder):
    code, said = push_to(hub.address, folder)
    assert (code, said) == (0, f"{hub.address}/{NAME}")
    assert hub.files == contents_of(folder) and len(hub.files) == 6
    assert len(hub.stored) == 1, "the weights went as a large file"
    assert hub.messages == ["Add encoder trained with selfguide"]
    [created] = hub.created
    assert (created["organization"], created["name"], created["visibility"]) == ("someone", "my-encoder", "public")
    assert hub.tokens == {f"Bearer {TOKEN}"}


def test_sentences_of_the_training_text_stay_here(hub, folder):
    for name in ("neighbours.json", "map.json", "report.html"):
        (folder / "selfguide" / name).write_text("a private sentence")
    assert push_to(hub.address, folder)[0] == 0
    assert len(hub.files) == 6
    assert not any(b"a private sentence" in content for content in hub.files.values())


def test_private_repository(hub, folder):
    assert push_to(hub.address, folder, private=True)[0] == 0
    assert hub.created[0]["visibility"] == "private"


def test_repository_that_is_there_already(hub, folder):
    hub.answers["/api/repos/create"] = 409
    assert push_to(hub.address, folder) == (0, f"{hub.address}/{NAME}")
    assert hub.files == contents_of(folder)


# A hub that refuses


def check_refusal(code, said, folder, before, reason):
    assert code == 3
    assert said.startswith(f"'{folder}' was trained but not uploaded to '{NAME}': ") and "\n" not in said
    assert reason in said
    assert contents_of(folder) == before


@pytest.mark.parametrize(
    ("part", "status"),
    [("/api/repos/create", 400), ("/preupload/", 403), ("/lfs/objects/batch", 413), ("/commit/main", 400)],
)
def test_hub_that_refuses(part, status, hub, folder):
    before = contents_of(folder)
    hub.answers[part] = status
    code, said = push_to(hub.address, folder)
    check_refusal(code, said, folder, before, f"this hub says {status}")
    assert not hub.files


def test_weights_that_are_not_taken(hub, folder):
    before = contents_of(folder)
    hub.answers["/store/"] = 403
    code, said = push_to(hub.address, folder)
    check_refusal(code, said, folder, before, "Error while uploading 'model.safetensors' to the Hub. 403 Forbidden")


def test_no_hub_at_all(folder):
    before = contents_of(folder)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        code, said = push_to(f"http://127.0.0.1:{closed.getsockname()[1]}", folder)
    check_refusal(code, said, folder, before, "Connection refused")


@pytest.mark.parametrize("name", ["a/b/c", "someone/--", ""])
def test_name_that_cannot_be(name, hub, folder):
    code, said = push_to(hub.address, folder, name=name)
    assert code == 3 and f"not uploaded to '{name}': " in said and "\n" not in said
    assert not hub.created


def test_offline_mode(folder):
    before = contents_of(folder)
    with pytest.raises(SelfguideError, match=r"was trained but not uploaded to '.*': .*offline mode is enabled") as caught:
        push(folder, NAME)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 1
    assert contents_of(folder) == before


# The command


@pytest.fixture
def command(tiny_bert, tmp_path):
    """The words of a short run, and its output folder."""
    texts, output = tmp_path / "texts.txt", tmp_path / "trained"
    texts.write_text("".join(f"the {first} and the {second}\n" for first in WORDS[:6] for second in WORDS[:6]))
    size = ["--steps", "1", "--batch-size", "4", "--projection-width", "16", "--device", "cpu"]
    return ["train", "--model", str(tiny_bert), "--data", str(texts), "--output", str(output), *size], output


def test_command_keeps_the_folder_and_says_where_it_is_when_the_upload_fails(command, capsys):
    words, output = command
    assert main([*words, "--push-to-hub", NAME]) == 1
    shown = capsys.readouterr()
    assert shown.out == f"encoder: {output}\n"
    last = shown.err.splitlines()[-1]
    assert last.startswith(f"selfguide: '{output}' was trained but not uploaded to '{NAME}': ") and "offline" in last
    assert (output / "model.safetensors").is_file() and (output / "selfguide" / "config.json").is_file()


def test_command_uploads_what_it_trained(command, capsys, monkeypatch):
    words, output = command
    calls = []
    monkeypatch.setattr("selfguide.hub.push", lambda *given, **options: calls.append((given, options)) or "https://hub/x/y")
    assert main([*words, "--push-to-hub", NAME, "--private"]) == 0
    assert calls == [((output, NAME), {"private": True})]
    assert capsys.readouterr().out == f"encoder: {output}\nhub: https://hub/x/y\n"
