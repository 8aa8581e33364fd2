-- Asks for many URLs by chance: the popularity of the nth one is nearly proportional to 1/n, as by Zipf's law.
local requests = {}

function init()
    for number = 0, @COUNT@ - 1 do
        requests[number] = wrk.format("GET", "@PREFIX@" .. number)
    end
end

function request()
    return requests[math.floor(@COUNT@ ^ math.random()) - 1]
end
