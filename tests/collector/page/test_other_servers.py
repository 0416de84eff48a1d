"""Whoever opens the page of one of several servers sees the open gates of all."""

from pathlib import Path

from tests.collector.page.conftest import Browser
from tests.reliability.serving import OK, looping, until
from tests.reliability.sharding import SERVERS, clustered


def test_each_page_shows_the_gates_of_all_and_which_server_is_away(tmp_path: Path) -> None:
    """A person who is paged need not know which server has a session."""
    with clustered(tmp_path) as cluster:
        assert cluster.servers[0].send(looping("s1", 6).request()) == OK
        pages = [Browser(server.address) for server in cluster.servers]

        def titles() -> list[str]:
            return [page.get("/").text.partition("</title>")[0] for page in pages]

        until(lambda: all("(1) Gates" in title for title in titles()))
        (owner,) = (at for at in range(SERVERS) if "on the other servers" in _elsewhere(pages[at]))
        other, third = (at for at in range(SERVERS) if at != owner)
        shown = pages[other].get("/").text
        assert "No gate is open on this server" in shown
        assert "1 gate open on the other servers" in shown
        assert f'href="{cluster.url(owner)}/gates/' in shown

        with pages[third].stream("GET", "/changes") as events:
            lines = events.iter_lines()
            assert next(line for line in lines if line == "event: begun")
            cluster.servers[owner].kill()
            assert next(line for line in lines if line == "event: gates")
        shown = pages[third].get("/").text
        assert f"The gates of {cluster.url(owner)} are not known." in shown
        assert "No agent is waiting, as far as is known" in shown
        for page in pages:
            page.close()


def _elsewhere(page: Browser) -> str:
    """Return the page if its server has the gate itself, else nothing."""
    shown = page.get("/").text
    return shown if "1 gate open on this server" in shown else ""
