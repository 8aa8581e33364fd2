# asyncio with a blocking library, in EXECUTOR: the loop's default one if that is None.

from urllib.request import ProxyHandler, build_opener

OPENER = build_opener(ProxyHandler({}))


def blocking(url):
    with OPENER.open(url) as response:
        return len(response.read())


async def main():
    loop = asyncio.get_running_loop()
    await measure(lambda url: loop.run_in_executor(EXECUTOR, blocking, url))


asyncio.run(main())
