"""Fetches URLs with asyncio as well as one can: with aiohttp, over connections that stay open.

Arguments: the URLs' common beginning, how many URLs, how many at once. Prints JSON.
"""

import asyncio
import json
import resource
import sys
import time

import aiohttp

BEGINNING, COUNT, AT_ONCE = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


async def one(session, places, url):
    async with places, session.get(url) as response:
        return len(await response.read())


async def main():
    places = asyncio.Semaphore(AT_ONCE)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:
        begun = time.perf_counter()
        urls = (f"{BEGINNING}{page}" for page in range(COUNT))
        lengths = await asyncio.gather(*(one(session, places, url) for url in urls))
        seconds = time.perf_counter() - begun
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"seconds": seconds, "processor": usage.ru_utime + usage.ru_stime, "bytes": sum(lengths)}))


asyncio.run(main())
