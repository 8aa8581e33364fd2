"""Fetches URLs with asyncio as one does who has a blocking library: in the loop's default executor.

Arguments: the URLs' common beginning, how many URLs, how many at once. Prints JSON.
"""

import asyncio
import json
import resource
import sys
import time
from urllib.request import ProxyHandler, build_opener

BEGINNING, COUNT, AT_ONCE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
OPENER = build_opener(ProxyHandler({}))


def fetch(url):
    with OPENER.open(url) as response:
        return len(response.read())


async def one(places, url):
    async with places:
        return await asyncio.get_running_loop().run_in_executor(None, fetch, url)


async def main():
    places = asyncio.Semaphore(AT_ONCE)
    begun = time.perf_counter()
    lengths = await asyncio.gather(*(one(places, f"{BEGINNING}{page}") for page in range(COUNT)))
    seconds = time.perf_counter() - begun
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": seconds, "processor": usage.ru_utime + usage.ru_stime, "bytes": sum(lengths)}))


asyncio.run(main())
