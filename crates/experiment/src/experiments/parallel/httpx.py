# asyncio with httpx, over connections that stay open.

import httpx


async def main():
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    async with httpx.AsyncClient(limits=limits, trust_env=False, timeout=None) as client:

        async def fetch(url):
            return len((await client.get(url)).content)

        await measure(fetch)


asyncio.run(main())
