"""Drives the page of the live view in a headless Chromium; see scripts/live-page.

Speaks the browser's debugging protocol over two pipes. Waits are bounded by numbers of looks, not by times.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time

LOOKS = 600


class Browser:
    """A browser with one page."""

    def __init__(self, program, folder):
        to_browser, self.out = os.pipe()
        self.back, from_browser = os.pipe()

        def place():
            # The protocol's file descriptors are 3 and 4. Copies first: one of the pipes may be there already.
            a, b = os.dup(to_browser), os.dup(from_browser)
            a, b = os.dup2(a, 103), os.dup2(b, 104)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.input = os.fdopen(self.back, "rb")
        self.number, self.session, self.problems = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def message(self):
        data = bytearray()
        while (byte := self.input.read(1)) not in (b"\0", b""):
            data += byte
        if not data:
            raise SystemExit("live-page: the browser has gone")
        return json.loads(data)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.message()
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(json.dumps(answer["params"])[:400])
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"live-page: {method}: {answer['error']}")
                return answer["result"]

    def js(self, text):
        result = self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise SystemExit(f"live-page: {text}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, text, what):
        for _ in range(LOOKS):
            if value := self.js(text):
                return value
            time.sleep(0.05)
        state = self.js("document.body.innerText.slice(0, 600)")
        raise SystemExit(f"live-page: never came: {what}\n{state}")

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && typeof store === 'object'", f"the page {url}")

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self, path):
        self.js("new Promise((r) => setTimeout(r, 300))")
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))
        print(f"live-page: {path}")

    def key(self, key):
        self.js("document.activeElement.blur()")
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=" " if key == " " and kind == "keyDown" else "")

    def drawn(self, canvas):
        """How many different colours a canvas has."""
        return self.js(
            f"(() => {{ const c = document.getElementById('{canvas}'); const d = c.getContext('2d')"
            ".getImageData(0, 0, c.width, c.height).data; const s = new Set(); for (let i = 0; i < d.length; i += 4)"
            " s.add(d[i] << 24 | d[i + 1] << 16 | d[i + 2] << 8 | d[i + 3]); return s.size; })()")


def check(fine, what):
    if not fine:
        raise SystemExit(f"live-page: {what}")


def live(b, program, folder, out):
    """A run, watched while it goes on."""
    files = [os.path.join(folder, name) for name in ("run.json", "run.jsonl")]
    run = subprocess.Popen(
        [program, "run", "--workload", "churn", "--heap", "48M", "--seconds", "12", "--serve", "127.0.0.1:0",
         "--json", files[0], "--record", files[1]], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    url = None
    while url is None:
        line = run.stderr.readline()
        check(line, "the run ended without an address")
        if found := re.search(r"http://\S+", line):
            url = found.group(0)
    b.size(1280, 1300)
    b.open(url)
    b.until("store.quanta.length > 100 && store.cycles.length > 2", "a hundred quanta")
    b.until("store.events.some((e) => e.kind === 'bookmark' && e.text === 'churn begins')", "the bookmark")
    for canvas in ("utilization", "heap", "histogram", "scope"):
        b.until(f"document.getElementById('{canvas}').width > 100", canvas)
        for _ in range(LOOKS):
            if (colours := b.drawn(canvas)) > 3:
                break
            time.sleep(0.05)
        check(colours > 3, f"{canvas} is empty")
    b.until("document.querySelectorAll('#mutators tbody tr').length >= 2", "the mutators")
    # Standing still while the program goes on.
    b.key(" ")
    b.until("document.getElementById('state').textContent.includes('paused')", "the pause")
    at, now = b.js("clock.at"), b.js("store.now")
    b.until(f"store.now > {now} + 2e8", "more records while paused")
    check(b.js("clock.at") == at, "the time went on while paused")
    # Back, to a bookmark, and to the present.
    b.key("ArrowLeft")
    b.until(f"clock.at < {at}", "going back")
    b.js("[...document.querySelectorAll('#events tr.bookmark')].at(-1).click()")
    b.until("clock.mode === 'pause' && clock.at < 4e9", "the bookmark's time")
    b.key("End")
    b.until("clock.mode === 'live' && clock.at === store.now", "the present")
    b.picture(os.path.join(out, "live-light.png"))
    b.js("document.getElementById('theme').click()")
    b.until("document.documentElement.dataset.theme === 'dark'", "the dark theme")
    b.picture(os.path.join(out, "live-dark.png"))
    for line in run.stderr:
        pass
    check(run.wait() == 0, "the run failed")
    with open(files[0]) as f:
        return json.load(f), files[1]


def replay(b, program, result, recording, out):
    """The same run from its recording: the page's figures are the run's own."""
    served = subprocess.Popen([program, "live", recording], stdout=subprocess.PIPE, text=True)
    try:
        b.size(1280, 1300)
        b.open(served.stdout.readline().strip())
        b.until("store.ended", "the recording's end")
        quanta, cycles, lost = b.js("[store.quanta.length, store.cycles.filter((c) => c.ns < Infinity).length, store.lost]")
        # The last quantum and the end of its cycle may be told when the heap closes, after the run's figures.
        check(quanta - result["quanta"] in (0, 1), f"{quanta} quanta, the run counted {result['quanta']}")
        check(cycles - result["cycles"] in (0, 1), f"{cycles} cycles, the run counted {result['cycles']}")
        check(lost == 0, f"{lost} records lost")
        window = b.js("store.begin.window_ns")
        charged = b.js(f"leastUtilization(pauses(store, 0, store.now, true), 0, store.now, {window})")
        own = [m for m in result["mmu"] if m["window_ms"] * 1e6 == window][0]
        told = own["charged"]
        check(abs(charged - told) < 0.002, f"least utilization {charged}, the run measured {told}")
        longest = b.js("store.longest") / 1e3
        check(longest <= result["pause_us"]["max"] * 1.01 + 1, f"longest pause {longest}, {result['pause_us']}")
        # Play from the beginning, slowly.
        b.js("document.getElementById('speed').value = '0.1'; document.getElementById('speed').onchange()")
        b.js("clock.go(0); clock.toggle()")
        b.until("clock.mode === 'play' && clock.at > store.begins() && clock.at < store.now", "playing")
        b.js("clock.go(store.cycles[1].ns + 2e7); document.getElementById('span').value = '0.5'")
        b.picture(os.path.join(out, "replay-cycle.png"))
        b.size(390, 1600)
        b.until("innerWidth === 390", "the narrow page")
        wide = b.js("document.documentElement.scrollWidth")
        check(wide <= 390, f"the narrow page is {wide} wide")
        b.picture(os.path.join(out, "replay-narrow.png"))
    finally:
        served.terminate()
        served.wait()


def log(b, program, path):
    """A log of 2007, which holds sums of quanta."""
    served = subprocess.Popen([program, "live", path], stdout=subprocess.PIPE, text=True)
    try:
        b.size(1280, 1300)
        b.open(served.stdout.readline().strip())
        b.until("store.ended", "the log's end")
        with open(path) as f:
            counts = [int(n) for n in re.findall(r'quantumcount="(\d+)"', f.read())]
        check(b.js("store.sums.reduce((n, h) => n + h.quanta, 0)") == sum(counts), "the log's quanta are others")
        check(b.js("store.quanta.length") == 0, "sums are shown as quanta")
        b.until("document.getElementById('utilization-note').textContent.includes('sums of quanta')", "the note about sums")
    finally:
        served.terminate()
        served.wait()


def main():
    program, metronome, out = sys.argv[1:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        b = Browser(program, os.path.join(folder, "profile"))
        try:
            result, recording = live(b, metronome, folder, out)
            # When the server goes away the browser says so; everything else is a fault.
            b.problems = [p for p in b.problems if "ERR_CONNECTION_REFUSED" not in p and "ERR_INCOMPLETE_CHUNKED" not in p]
            check(not b.problems, f"the page had errors: {b.problems}")
            replay(b, metronome, result, recording, out)
            log(b, metronome, "verbosegc-samples/index-2007.xml")
            check(not [p for p in b.problems if "ERR_" not in p], f"the page had errors: {b.problems}")
        finally:
            b.process.terminate()
            b.process.wait()
    print("live-page: all figures agree")


if __name__ == "__main__":
    main()
