"""What the programs that are measured have in common: arguments, clock, and an end with their parent.

Arguments: the URLs' common beginning, how many URLs, how many at once, how many more to begin with. Prints JSON.
"""

import asyncio
import json
import os
import resource
import sys
import threading
import time

BEGINNING, COUNT, AT_ONCE, WARMING = sys.argv[1], *map(int, sys.argv[2:])


def end_with_input():
    while os.read(0, 1024):
        pass
    os._exit(1)


def processor():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak():
    """The peak of this program's memory, in bytes. ru_maxrss begins with that of the program that started this one."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


async def measure(fetch):
    """Fetches the pages that only warm, and then the others, whose time counts."""
    places = asyncio.Semaphore(AT_ONCE)
    times = []

    async def one(page):
        async with places:
            begun = time.perf_counter()
            size = await fetch(f"{BEGINNING}{page}")
            times.append(time.perf_counter() - begun)
            return size

    async def every(pages):
        return sum(await asyncio.gather(*map(one, pages)))

    await every(range(COUNT, COUNT + WARMING))
    times.clear()
    spent, begun = processor(), time.perf_counter()
    count = await every(range(COUNT))
    seconds, spent = time.perf_counter() - begun, processor() - spent
    times.sort()
    told = {"seconds": seconds, "processor": spent, "bytes": count, "peak": peak()}
    print(json.dumps(told | {"p99": times[len(times) * 99 // 100], "slowest": times[-1]}))


threading.Thread(target=end_with_input, daemon=True).start()
