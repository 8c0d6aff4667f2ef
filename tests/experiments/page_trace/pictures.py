# SPDX-License-Identifier: MIT
"""What a browser has drawn of a page trace."""

from __future__ import annotations

from typing import NamedTuple

from tests.chromium import Chromium


class Drawn(NamedTuple):
    """The level that is shown, the picture as a URL, and how many of its points have visits."""

    level: str
    url: str
    inked: int


def drawn(browser: Chromium) -> Drawn:
    """What is shown, when it is whole."""
    picture = "document.getElementById('picture')"
    ready = f"{picture}.dataset.ready === 'true'"
    see = f"const see = () => {ready} ? done(true) : setTimeout(see, 50); setTimeout(see, 100);"
    browser.run(f"new Promise(done => {{ {see} }})")
    level, url = browser.run(f"[{picture}.dataset.level, {picture}.toDataURL()]")
    inked = browser.run(
        f"{picture}.getContext('2d').getImageData(190, 0, 900, 500).data.filter((v, i) => i % 4 === 3 && v > 80).length"
    )
    return Drawn(level, url, inked)
