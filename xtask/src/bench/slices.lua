-- Asks for ranges of 1 MiB of one object in turn, which begin this many bytes behind a border of slices.
local requests, at = {}, 0

function init()
    for number = 0, @COUNT@ - 1 do
        local first = number * @STRIDE@ + @OFFSET@
        wrk.headers["Range"] = string.format("bytes=%d-%d", first, first + 1048575)
        requests[number] = wrk.format("GET")
    end
end

function request()
    at = (at + 1) % @COUNT@
    return requests[at]
end
