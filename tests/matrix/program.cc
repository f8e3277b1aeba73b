// SPDX-License-Identifier: MIT
// Enough of the standard library that compiling it takes memory.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>

int main()
{
    std::map<std::string, std::vector<std::shared_ptr<std::string>>> groups;
    for (int i = 0; i < 5000; i++)
        groups["k" + std::to_string(i * 7919 % 997)].push_back(
            std::make_shared<std::string>(static_cast<size_t>(i % 40), 'x'));
    size_t total = 0;
    for (const auto &[key, values] : groups)
        total += std::accumulate(values.begin(), values.end(), key.size(),
                                 [](size_t sum, const auto &value) { return sum + value->size(); });
    std::string text;
    for (const auto &group : groups)
        text += group.first + " ";
    const std::regex expression("k(\\d)\\d*\\1 ");
    total += static_cast<size_t>(std::distance(
        std::sregex_iterator(text.begin(), text.end(), expression), std::sregex_iterator()));
    std::cout << total << '\n';
}
