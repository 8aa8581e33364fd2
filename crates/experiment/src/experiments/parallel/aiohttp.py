# asyncio as well as one can: with aiohttp, over connections that stay open.

import aiohttp


async def main():
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def fetch(url):
            async with session.get(url) as response:
                return len(await response.read())

        await measure(fetch)


asyncio.run(main())
