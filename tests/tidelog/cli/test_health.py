"""`tidelog health`: what it asks, what it says, and the exit code that Docker looks at."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.support.command_line import call
from tidelog.cli.health import health


class Answers(BaseHTTPRequestHandler):
    """Answers as a broker would in some state."""

    by_path: dict[str, tuple[int, bytes]]

    def do_GET(self):
        status, body = self.by_path[self.path]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """Return what starts a server with some answers; returns its URL."""
    started = []

    def start(**answers):
        by_path = {f"/{name}": answer for name, answer in answers.items()}
        made = HTTPServer(("127.0.0.1", 0), type("Scripted", (Answers,), {"by_path": by_path}))
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        started.append(made)
        return f"http://127.0.0.1:{made.server_port}"

    yield start
    for made in started:
        made.shutdown()
        made.server_close()


def answer(code, **body):
    return code, json.dumps(body).encode()


@pytest.mark.parametrize(
    ("readyz", "sentence", "code"),
    [
        (answer(200, status="ready"), "ready", 0),
        (answer(503, status="recovering", reason="3 of 8 logs"), "recovering: 3 of 8 logs", 1),
        (
            answer(200, status="ready", degraded=["/disk2 is missing", "t-0 is damaged"]),
            "ready, degraded: /disk2 is missing; t-0 is damaged",
            0,
        ),
    ],
)
def test_given_a_state_when_asked_then_it_is_said_and_the_code_tells(
    server, capsys, readyz, sentence, code
):
    url = server(readyz=readyz)

    found = health(["--url", url])

    assert found == code
    assert capsys.readouterr().out == sentence + "\n"


def test_given_a_broker_that_is_not_ready_when_asked_if_alive_then_it_is(server, capsys):
    url = server(readyz=answer(503, status="starting"), healthz=answer(200, status="alive"))

    assert health(["--url", url, "--live"]) == 0
    assert health(["--url", url]) == 1
    assert capsys.readouterr().out == "alive\nstarting\n"


def test_given_json_when_asked_for_then_the_answer_is_passed_on(server, capsys):
    url = server(readyz=answer(503, status="starting", reason="x"))

    code = health(["--url", url, "--json"])

    assert code == 1
    assert json.loads(capsys.readouterr().out) == {"status": "starting", "reason": "x"}


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff"])
def test_given_something_else_on_the_port_when_asked_then_that_is_not_health(server, capsys, body):
    url = server(readyz=(200, body))

    code = health(["--url", url])

    assert code == 1
    assert "no Tidelog broker" in capsys.readouterr().err


@pytest.mark.parametrize("noise", [b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1\r\n\r\n", b""])
def test_given_no_http_when_asked_then_that_is_not_health(capsys, noise):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def speak():
            connection, _ = listening.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(noise)

        speaking = threading.Thread(target=speak)
        speaking.start()

        code = health(["--url", f"127.0.0.1:{listening.getsockname()[1]}"])

        speaking.join()
    assert code == 1
    assert "does not speak HTTP" in capsys.readouterr().err


def test_given_silence_when_asked_then_it_is_not_waited_for_long(capsys):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"

        code = health(["--url", url, "--timeout", "0.05"])

    assert code == 1
    assert "timed out" in capsys.readouterr().err


def test_given_nobody_when_asked_then_one_sentence_says_so(capsys):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

    code = health(["--url", f"http://127.0.0.1:{port}"])

    assert code == 1
    assert capsys.readouterr().err == (
        f"tidelog: 127.0.0.1:{port} does not answer: Connection refused\n"
    )


def test_given_the_brokers_environment_when_asked_without_url_then_it_is_followed(
    server, capsys, monkeypatch
):
    port = server(readyz=answer(200, status="ready")).rpartition(":")[2]
    monkeypatch.setenv("TIDELOG__HTTP__PORT", port)
    monkeypatch.setenv("TIDELOG__HTTP__HOST", "0.0.0.0")

    code = health([])

    assert (code, capsys.readouterr().out) == (0, "ready\n")


@pytest.mark.parametrize("url", ["https://localhost:1", "http://localhost:http", "localhost:0"])
def test_given_a_url_that_cannot_be_when_asked_then_it_is_wrong_usage(capsys, url):
    with pytest.raises(SystemExit) as raised:
        health(["--url", url])

    assert raised.value.code == 2
    assert url in capsys.readouterr().err


def test_given_the_typer_app_when_health_is_called_then_it_is_the_same_command(server):
    url = server(readyz=answer(200, status="ready"))

    outcome = call("health", "--url", url)

    assert (outcome.code, outcome.text) == (0, "ready\n")
