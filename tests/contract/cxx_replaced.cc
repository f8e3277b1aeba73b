/* SPDX-License-Identifier: MIT
 *
 * cxx_replaced.cc: a program replaces the lowest forms of operator new and delete alone.
 *
 * It means the others as well, which are built on them: `delete p` calls the sized form,
 * std::stable_sort the one that does not throw. A library that serves those itself is handed what
 * lies behind the program's header.
 */
#include <algorithm>
#include <new>
#include <vector>

#include "tests/contract/contract.h"

static const size_t HEADER = 64;
static int created, destroyed;
static bool refuses;

static void *create(size_t size)
{
    char *block = refuses ? nullptr : static_cast<char *>(aligned_alloc(HEADER, size + 2 * HEADER));
    if (!block)
        throw std::bad_alloc();
    created++;
    return block + HEADER;
}

static void destroy(void *block)
{
    if (!block)
        return;
    destroyed++;
    free(static_cast<char *>(block) - HEADER);
}

void *operator new(size_t size)
{
    return create(size);
}

void operator delete(void *block) noexcept
{
    destroy(block);
}

void *operator new(size_t size, std::align_val_t)
{
    return create(size);
}

void operator delete(void *block, std::align_val_t) noexcept
{
    destroy(block);
}

static const std::align_val_t ALIGNMENT{HEADER};
static const size_t SIZE = 100;

static void require_all_are_replaced()
{
    operator delete(operator new(SIZE), SIZE);
    operator delete(operator new(SIZE, std::nothrow), std::nothrow);
    operator delete[](operator new[](SIZE));
    operator delete[](operator new[](SIZE), SIZE);
    operator delete[](operator new[](SIZE, std::nothrow), std::nothrow);
    require(created == 5 && destroyed == 5);
    operator delete(operator new(SIZE, ALIGNMENT), SIZE, ALIGNMENT);
    operator delete(operator new(SIZE, ALIGNMENT, std::nothrow), ALIGNMENT, std::nothrow);
    operator delete[](operator new[](SIZE, ALIGNMENT), ALIGNMENT);
    operator delete[](operator new[](SIZE, ALIGNMENT), SIZE, ALIGNMENT);
    operator delete[](operator new[](SIZE, ALIGNMENT, std::nothrow), ALIGNMENT, std::nothrow);
    require(created == 10 && destroyed == 10);
    operator delete[](nullptr);
    operator delete(nullptr, SIZE);
    require(destroyed == 10);
}

static void require_refusals()
{
    refuses = true;
    require(operator new(SIZE, std::nothrow) == nullptr);
    require(operator new[](SIZE, std::nothrow) == nullptr);
    require(operator new(SIZE, ALIGNMENT, std::nothrow) == nullptr);
    require(operator new[](SIZE, ALIGNMENT, std::nothrow) == nullptr);
    bool is_thrown = false;
    try {
        opaque(operator new[](SIZE));
    } catch (const std::bad_alloc &) {
        is_thrown = true;
    }
    require(is_thrown);
    refuses = false;
}

int main()
{
    require_all_are_replaced();
    require_refusals();
    std::vector<int> numbers;
    for (int i = 0; i < 10000; i++)
        numbers.push_back(i * 7919 % 10007);
    int before = created;
    std::stable_sort(numbers.begin(), numbers.end());
    require(created > before && std::is_sorted(numbers.begin(), numbers.end()));
    delete static_cast<int *>(opaque(new int(5)));
    exercise();
    return 0;
}
