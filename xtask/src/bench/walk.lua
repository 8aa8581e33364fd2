-- Asks for many URLs in turn, in an order that is not the one in which they were stored.
local requests, at = {}, 0

function init()
    for number = 0, @COUNT@ - 1 do
        requests[number] = wrk.format("GET", "@PREFIX@" .. number)
    end
end

function request()
    at = (at + @STRIDE@) % @COUNT@
    return requests[at]
end
