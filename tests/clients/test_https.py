"""HTTPS: official clients, HTTP/2, certificates that change under load, clients' certificates."""

import os
import socket
import ssl
import threading

import httpx
import openai
import pytest
import trustme

from conftest import MODEL, Server

QUESTION = [{"role": "user", "content": "What is a TLB?"}]


class Secure:
    """A server with a certificate of an authority of our own."""

    def __init__(self, folder, *options):
        self.authority = trustme.CA()
        self.cert, self.key = os.path.join(folder, "cert.pem"), os.path.join(folder, "key.pem")
        self.renew()
        self.context = ssl.create_default_context()
        self.authority.configure_trust(self.context)
        self.server = Server("--tls-cert", self.cert, "--tls-key", self.key, *options, verify=self.context)
        self.url = self.server.url

    def renew(self):
        """Another certificate in the same files."""
        pair = self.authority.issue_cert("127.0.0.1", "localhost")
        pair.cert_chain_pems[0].write_to_path(self.cert)
        pair.private_key_pem.write_to_path(self.key)

    def shown(self):
        """The certificate that a new connection is shown."""
        host, port = httpx.URL(self.url).host, httpx.URL(self.url).port
        with socket.create_connection((host, port), timeout=10) as plain:
            with self.context.wrap_socket(plain, server_hostname=host) as secure:
                return secure.getpeercert(binary_form=True)

    def client(self, **options):
        http = httpx.Client(verify=self.context, timeout=60, **options)
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="unused", max_retries=0, http_client=http)


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    secure = Secure(tmp_path_factory.mktemp("tls"))
    yield secure
    assert secure.server.stop() == 0


def test_the_official_client_and_both_versions_of_http(secure):
    assert secure.url.startswith("https://")
    for http2, version in [(False, "HTTP/1.1"), (True, "HTTP/2")]:
        client = secure.client(http2=http2)
        answer = client.chat.completions.with_raw_response.create(model=MODEL, messages=QUESTION, max_tokens=8)
        assert answer.http_response.http_version == version
        assert answer.parse().usage.completion_tokens == 8
        chunks = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8, stream=True)
        assert list(chunks)[-1].choices[0].finish_reason == "length"


def test_who_does_not_trust_the_authority_gets_nothing(secure):
    with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        httpx.get(f"{secure.url}/health", timeout=10)


def test_http_on_the_same_port_is_told_what_is_wrong(secure):
    answer = httpx.get(secure.url.replace("https://", "http://") + "/health", timeout=10)
    assert answer.status_code == 400 and "https://" in answer.text


def test_a_new_certificate_under_load_breaks_no_stream(secure):
    before, ends, failures = secure.shown(), [], []
    started = threading.Barrier(9)

    def stream(number):
        try:
            client = secure.client(http2=number % 2 == 0)
            chunks = client.chat.completions.create(
                model=MODEL, messages=QUESTION, max_tokens=400, stream=True, extra_body={"ignore_eos": True}
            )
            next(iter(chunks))
            started.wait(60)
            *_, last = chunks
            ends.append(last.choices[0].finish_reason)
        except Exception as failure:  # told by the assertion below
            failures.append(failure)
            started.abort()

    streams = [threading.Thread(target=stream, args=(number,)) for number in range(8)]
    for one in streams:
        one.start()
    started.wait(60)
    secure.renew()
    secure.server.until("the new certificate is shown", lambda: secure.shown() != before, seconds=30)
    # Files that do not belong together change nothing.
    renewed = secure.shown()
    with open(secure.key, "w") as file:
        file.write("broken")
    for one in streams:
        one.join(120)
    assert not failures and ends == ["length"] * 8
    assert secure.shown() == renewed
    secure.renew()
    secure.server.until("the third certificate is shown", lambda: secure.shown() != renewed, seconds=30)


def test_clients_need_a_certificate_where_one_is_asked_for(tmp_path):
    clients = trustme.CA()
    authority = str(tmp_path / "clients.pem")
    clients.cert_pem.write_to_path(authority)
    secure = Secure(str(tmp_path), "--tls-client-ca", authority)
    try:
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{secure.url}/health", verify=secure.context, timeout=10)
        clients.issue_cert("a-client@example.org").configure_cert(secure.context)
        assert httpx.get(f"{secure.url}/health", verify=secure.context, timeout=10).status_code == 200
        assert secure.client().models.list().data[0].id == MODEL
    finally:
        assert secure.server.stop() == 0
