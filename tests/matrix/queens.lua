-- SPDX-License-Identifier: MIT
-- Queens on a board, with tables and strings made at every step.
local function safe(placed, row)
    for column, other in ipairs(placed) do
        if other == row or math.abs(other - row) == #placed + 1 - column then return false end
    end
    return true
end
local solutions = {}
local function place(placed, size)
    if #placed == size then
        solutions[#solutions + 1] = table.concat(placed, " ")
        return
    end
    for row = 1, size do
        if safe(placed, row) then place({row, table.unpack(placed)}, size) end
    end
end
place({}, 7)
table.sort(solutions)
print(#solutions, solutions[1], solutions[#solutions])
local text = {}
for i = 1, 50000 do text[i % 3000 + 1] = ("%d:%s"):format(i, ("x"):rep(i % 60)) end
print(#table.concat(text), select(2, table.concat(text):gsub("%d+:x", "")))
collectgarbage()
