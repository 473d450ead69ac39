"""Pictures of the HTML mails in headless Chromium, as a mail program on a light and on a dark screen shows them, and on a phone."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import websockets

directory = Path(sys.argv[1])
SIZES = {"light": (760, "light"), "dark": (760, "dark"), "phone": (390, "light"), "phone-dark": (390, "dark")}


async def shoot(address):
    async with websockets.connect(address, max_size=1 << 28) as socket:
        number = 0

        async def call(method, **parameters):
            nonlocal number
            number += 1
            await socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
            while True:
                answer = json.loads(await socket.recv())
                if answer.get("id") == number:
                    assert "error" not in answer, answer
                    return answer["result"]

        await call("Page.enable")
        for file in sorted(directory.glob("*.html")):
            for name, (width, scheme) in SIZES.items():
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                await call("Emulation.setEmulatedMedia", features=features)
                await call("Emulation.setDeviceMetricsOverride", width=width, height=600, deviceScaleFactor=1, mobile=width < 500)
                await call("Page.navigate", url=file.resolve().as_uri())
                await asyncio.sleep(0.4)
                measure = "document.documentElement.scrollWidth + ' ' + document.documentElement.scrollHeight"
                result = await call("Runtime.evaluate", expression=measure)
                wide, high = map(int, result["result"]["value"].split())
                assert wide <= width, f"{file.name} is {wide} wide on a screen of {width}"
                clip = {"x": 0, "y": 0, "width": width, "height": high, "scale": 1}
                picture = await call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
                target = file.with_suffix(f".{name}.png")
                target.write_bytes(base64.b64decode(picture["data"]))
                print(target.name, f"{width}x{high}")


with tempfile.TemporaryDirectory() as profile:
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={profile}"]
    browser = subprocess.Popen(["chromium", *arguments, "about:blank"], stderr=subprocess.PIPE, text=True, env=os.environ)
    try:
        for line in browser.stderr:
            if "DevTools listening on" in line:
                port = line.split(":")[-1].split("/")[0]
                break
        pages = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json"))
        asyncio.run(shoot(next(page for page in pages if page["type"] == "page")["webSocketDebuggerUrl"]))
    finally:
        browser.terminate()
        browser.wait()
