# asyncio as one uses it who has a blocking library: in the loop's default executor.

from urllib.request import ProxyHandler, build_opener

OPENER = build_opener(ProxyHandler({}))


def blocking(url):
    with OPENER.open(url) as response:
        return len(response.read())


async def main():
    loop = asyncio.get_running_loop()
    await measure(lambda url: loop.run_in_executor(None, blocking, url))


asyncio.run(main())
