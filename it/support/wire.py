"""Kinesis without an SDK: the same request in every form of the wire."""

import base64
import datetime
import json
from dataclasses import dataclass

import cbor2
import httpx
from botocore.eventstream import EventStreamBuffer

from expect import expect

BLOBS = {"Data"}
INSTANTS = {"ApproximateArrivalTimestamp", "ConsumerCreationTimestamp", "StreamCreationTimestamp", "Timestamp"}
EPOCH = 1  # the tag of an instant in CBOR
# As every SDK sends it; nobody looks at the signature.
SIGNATURE = "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/kinesis/aws4_request, SignedHeaders=host, Signature=0"


@dataclass(frozen=True)
class Json:
    """Payloads are base64 text, instants seconds with a fraction."""

    content_type = "application/x-amz-json-1.1"

    @staticmethod
    def write(request):
        return json.dumps(request, default=Json._plain).encode()

    @staticmethod
    def _plain(value):
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        return value.timestamp()

    @staticmethod
    def read(body):
        return json.loads(body, object_hook=Json._members)

    @staticmethod
    def _members(members):
        for name in members.keys() & BLOBS:
            members[name] = base64.b64decode(members[name])
        for name in members.keys() & INSTANTS:
            members[name] = round(members[name] * 1_000)
        return members


@dataclass(frozen=True)
class Cbor:
    """Payloads are byte strings, instants integer milliseconds, in requests under a tag."""

    content_type = "application/x-amz-cbor-1.1"

    @staticmethod
    def write(request):
        return cbor2.dumps(Cbor._tagged(request))

    @staticmethod
    def _tagged(value):
        if isinstance(value, dict):
            return {name: Cbor._tagged(member) for name, member in value.items()}
        if isinstance(value, list):
            return [Cbor._tagged(item) for item in value]
        if isinstance(value, datetime.datetime):
            return cbor2.CBORTag(EPOCH, round(value.timestamp() * 1_000))
        return value

    @staticmethod
    def read(body):
        reply = cbor2.loads(body)
        Cbor._check(reply)
        return reply

    @staticmethod
    def _check(value):
        for name, member in value.items() if isinstance(value, dict) else ():
            expect(name not in BLOBS or isinstance(member, bytes), f"{name} is no byte string: {member!r}")
            expect(name not in INSTANTS or isinstance(member, int), f"{name} is no integer: {member!r}")
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            Cbor._check(item)


@dataclass(frozen=True)
class Form:
    """How a client speaks."""

    http: str
    content: type

    def __str__(self):
        return f"{self.content.__name__.upper()} over {self.http}"


FORMS = [Form(http, content) for content in (Json, Cbor) for http in ("HTTP/1.1", "HTTP/2")]


@dataclass
class Reply:
    status: int
    body: dict

    @property
    def code(self):
        return self.body.get("__type")

    @property
    def message(self):
        return self.body.get("message")


class Wire:
    """Kinesis in one form; HTTP/2 without asking for it first."""

    def __init__(self, url, form=FORMS[0]):
        self._url, self._form = url, form
        http2 = form.http == "HTTP/2"
        self._client = httpx.Client(http1=not http2, http2=http2, timeout=20, trust_env=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.close()

    def call(self, operation, request):
        """Calls an operation. The request has bytes for payloads and datetimes for instants."""
        return self.send(operation, self._form.content.write(request))

    def send(self, operation, body):
        with self._stream(operation, body) as response:
            return self._reply(response)

    def subscribe(self, request):
        """The events of SubscribeToShard as pairs of headers and payload, or the reply that refuses it."""
        with self._stream("SubscribeToShard", self._form.content.write(request)) as response:
            if response.status_code != 200:
                yield self._reply(response)
                return
            self._check_head(response, "application/vnd.amazon.eventstream")
            buffer = EventStreamBuffer()
            for chunk in response.iter_bytes():
                buffer.add_data(chunk)
                for frame in buffer:
                    yield frame.headers, self._form.content.read(frame.payload)

    def _stream(self, operation, body):
        headers = {
            "X-Amz-Target": f"Kinesis_20131202.{operation}",
            "Content-Type": self._form.content.content_type,
            "Authorization": SIGNATURE,
        }
        return self._client.stream("POST", self._url, content=body, headers=headers)

    def _reply(self, response):
        self._check_head(response, self._form.content.content_type)
        body = response.read()
        return Reply(response.status_code, self._form.content.read(body) if body else {})

    def _check_head(self, response, content_type):
        expect(response.http_version == self._form.http, f"the reply came by {response.http_version}")
        expect(response.headers["content-type"] == content_type, f"a reply of {response.headers['content-type']}")
        expect(response.headers.get("x-amzn-requestid"), "a reply without the id of the request")
