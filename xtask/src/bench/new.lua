-- Asks for one URL after the other, none of them twice.
local at = 0

function request()
    at = at + 1
    return wrk.format("GET", "@PREFIX@" .. at)
end
