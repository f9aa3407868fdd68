"""The browser of these tests sees what it has to see."""

from __future__ import annotations

from typing import Any

from tests.web.browser.chromium import Chromium
from tests.web.browser.site import Site

PAGE = b"""<!doctype html><html><head><title>x</title><style>p {color: #ccc}</style></head>
<body><p>pale</p><img src="/picture"><script>document.title = 'ran'</script></body></html>"""


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401, ARG001
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-security-policy", b"default-src 'self'; style-src 'unsafe-inline'"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": PAGE})


def test_it_reports_a_violation_of_the_policy_and_faults_of_accessibility(
    browser: Chromium,
) -> None:
    with Site(app) as site:
        browser.open(site.url)
        assert any("Content Security Policy" in line for line in browser.log()), "inline script"
        faults = " ".join(browser.faults())
    assert browser.driver.title == "x"
    for rule in ("color-contrast", "image-alt", "html-has-lang"):
        assert rule in faults, rule
