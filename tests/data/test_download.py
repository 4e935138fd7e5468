"""Downloads from a real server on this machine: whole, broken off, resumed, wrong, absent."""

import hashlib
import threading
from dataclasses import replace

import pytest

from tests.data.web import BODY, serving
from tuneup.data import Remote
from tuneup.data.download import download
from tuneup.errors import DownloadError, OutputError


@pytest.fixture
def server():
    with serving() as found:
        yield found


@pytest.fixture
def remote(server):
    checksum = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
    return Remote(server.url, "file.bin", len(BODY), (checksum,))


@pytest.fixture
def target(tmp_path):
    return tmp_path / "file.bin"


def part(target):
    return target.with_name("file.bin.part")


def fetch(remote, target, **options):
    download(remote, target, **{"pause": 0.0, "timeout": 5.0} | options)


def test_a_file_arrives_whole_and_alone(remote, target, server):
    events = []
    fetch(remote, target, report=lambda done, total: events.append((done, total)))
    assert target.read_bytes() == BODY
    assert list(target.parent.iterdir()) == [target]
    assert events[0] == (0, len(BODY))
    assert events[-1] == (len(BODY), len(BODY))
    assert events == sorted(events)
    assert server.asked == [None]


def test_a_broken_connection_is_resumed(remote, target, server):
    server.cuts = [300_000, 400_001]
    fetch(remote, target)
    assert target.read_bytes() == BODY
    assert server.asked == [None, "bytes=300000-", "bytes=700001-"]


@pytest.mark.parametrize("known", [True, False])
def test_a_part_of_an_earlier_run_is_resumed(remote, target, server, known):
    part(target).write_bytes(BODY[:777_777])
    fetch(remote if known else replace(remote, size=None, checksums=()), target)
    assert target.read_bytes() == BODY
    assert server.asked == ["bytes=777777-"]
    assert not part(target).exists()


def test_a_server_without_ranges_sends_all_again(remote, target, server):
    server.ranges, server.cuts = False, [500_000]
    part(target).write_bytes(b"half of it")
    fetch(remote, target)
    assert target.read_bytes() == BODY
    assert len(server.asked) == 2


@pytest.mark.parametrize("known", [True, False])
def test_a_complete_part_needs_no_more_bytes(remote, target, server, known):
    part(target).write_bytes(BODY)
    fetch(remote if known else replace(remote, size=None), target)
    assert target.read_bytes() == BODY
    assert server.asked == ([] if known else [f"bytes={len(BODY)}-"])


@pytest.mark.parametrize("size", [100_000, 2 * len(BODY)])
@pytest.mark.parametrize("known", [True, False])
def test_a_part_of_another_file_is_discarded(remote, target, server, size, known):
    part(target).write_bytes(bytes(size))
    fetch(remote if known else replace(remote, size=None), target)
    assert target.read_bytes() == BODY


def test_a_wrong_checksum_leaves_nothing(remote, target):
    wrong = replace(remote, checksums=("sha256:" + "0" * 64,))
    with pytest.raises(DownloadError, match=r"file\.bin has the sha256 \w{64} where 0{64} was"):
        fetch(wrong, target)
    assert list(target.parent.iterdir()) == []


def test_any_of_several_checksums_will_do(remote, target):
    md5 = f"md5:{hashlib.md5(BODY).hexdigest()}"
    fetch(replace(remote, checksums=("sha256:" + "0" * 64, md5)), target)
    assert target.exists()


def test_a_wrong_size_leaves_nothing(remote, target):
    with pytest.raises(DownloadError, match=r"has 1,280,000 bytes where 12 were expected"):
        fetch(replace(remote, size=12, checksums=()), target)
    assert list(target.parent.iterdir()) == []


def test_an_answer_of_no_stated_length_is_taken_to_its_end(remote, target, server):
    server.says_length = False
    fetch(remote, target)
    assert target.read_bytes() == BODY


@pytest.mark.parametrize("code", [403, 404, 410])
def test_a_missing_file_is_requested_once(remote, target, server, code):
    server.codes = [code] * 3
    with pytest.raises(DownloadError, match=f"cannot be fetched .the server answers {code} "):
        fetch(remote, target)
    assert len(server.asked) == 1
    assert list(target.parent.iterdir()) == []


def test_a_busy_server_is_tried_again(remote, target, server):
    server.codes = [503, 429]
    fetch(remote, target)
    assert target.read_bytes() == BODY


def test_a_server_that_stays_busy_is_given_up_and_the_part_stays(remote, target, server):
    server.cuts, server.codes = [1000], []
    part(target).write_bytes(BODY[:500])
    server.codes = [503] * 9
    with pytest.raises(DownloadError, match=r"cannot be reached \(the server answers 503\)"):
        fetch(remote, target, tries=3)
    assert len(server.asked) == 3
    assert part(target).read_bytes() == BODY[:500]
    assert not target.exists()


def test_a_web_page_is_not_taken_for_the_file(remote, target, server):
    server.kind = "text/html; charset=utf-8"
    with pytest.raises(DownloadError, match=r"gives a web page in place of file\.bin"):
        fetch(replace(remote, size=None, checksums=()), target)
    assert list(target.parent.iterdir()) == []


def test_a_host_that_is_not_there_is_tried_once(target):
    with serving() as gone:
        url = gone.url
    with pytest.raises(DownloadError, match=r"cannot be reached \(Connection refused\)") as caught:
        fetch(Remote(url, "file.bin"), target, pause=60.0)
    assert "\n" not in str(caught.value)
    assert list(target.parent.iterdir()) == []


def test_a_server_that_falls_silent_is_left(remote, target, server):
    silent = threading.Event()
    whole = server.answer

    def answer(request):
        if not server.asked:
            server.cuts = [200_000]
            whole(request)
            request.wfile.flush()
            silent.wait(20)
        else:
            whole(request)

    server.answer = answer
    try:
        fetch(remote, target, timeout=0.3)
    finally:
        silent.set()
    assert target.read_bytes() == BODY
    assert server.asked == [None, "bytes=200000-"]


def test_a_folder_that_is_missing_is_named(remote, tmp_path):
    with pytest.raises(OutputError, match=r"cannot write .*file\.bin: No such file or directory"):
        fetch(remote, tmp_path / "nowhere" / "file.bin")
