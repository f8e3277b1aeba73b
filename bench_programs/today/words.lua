-- SPDX-License-Identifier: MIT
-- lua's load: tables and strings that come and go. words.lua PASSES FILE
local passes, path = tonumber(arg[1]), arg[2]
local total = 0
for _ = 1, passes do
    local groups, order = {}, {}
    for word in io.lines(path) do
        local letters = {}
        for letter in word:lower():gmatch(".") do
            letters[#letters + 1] = letter
        end
        table.sort(letters)
        local key = table.concat(letters)
        if not groups[key] then
            groups[key] = {}
            order[#order + 1] = key
        end
        table.insert(groups[key], word)
    end
    for _, key in ipairs(order) do
        if #groups[key] > 1 then
            total = total + #table.concat(groups[key], " ")
        end
    end
end
print(total)
