"""Asks for a list twenty times a second, each time over a new connection, and tells how long it took.

honest_client.py HOST:PORT SECONDS NAME; the token is in TOKEN, the server's process in SERVER.
"""

import http.client
import os
import sys
import time

address, seconds, name = sys.argv[1], float(sys.argv[2]), sys.argv[3]
headers = {"Authorization": f"Bearer {os.environ['TOKEN']}", "Connection": "close"}
took, failures = [], []
end = time.monotonic() + seconds
while time.monotonic() < end:
    started = time.monotonic()
    try:
        connection = http.client.HTTPConnection(address, timeout=10)
        connection.request("GET", "/v1/builds", headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            failures.append(str(answer.status))
        connection.close()
    except OSError as error:
        failures.append(repr(error))
    took.append(time.monotonic() - started)
    time.sleep(max(0.0, 0.05 - took[-1]))
took.sort()
memory = "?"
try:
    with open(f"/proc/{os.environ['SERVER']}/status") as status:
        memory = next(line.split()[1] for line in status if line.startswith("VmRSS"))
    memory = str(int(memory) // 1024)
except (OSError, KeyError):
    pass
at = lambda share: took[min(len(took) - 1, int(len(took) * share))] * 1000
print(
    f"{name:>14}: {len(took)} requests, {len(failures)} failed, p50 {at(0.5):.1f} ms, p99 {at(0.99):.1f} ms, "
    f"longest {took[-1] * 1000:.1f} ms; the server takes {memory} MiB",
    flush=True,
)
for failure in sorted(set(failures)):
    print("   ", failure)
sys.exit(1 if failures or at(0.99) >= 250 else 0)
