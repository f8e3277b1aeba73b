/* SPDX-License-Identifier: MIT
 *
 * program.c: something for compilers and debuggers to look at: words in a tree of letters.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *children[26];
    int count;
};

static struct node *insert(struct node *node, const char *word)
{
    if (!node)
        node = calloc(1, sizeof *node);
    if (*word)
        node->children[*word - 'a'] = insert(node->children[*word - 'a'], word + 1);
    else
        node->count++;
    return node;
}

int search(const struct node *node, int depth)
{
    int found = node->count * depth;
    for (int i = 0; i < 26; i++)
        if (node->children[i])
            found += search(node->children[i], depth + 1);
    return found;
}

static void destroy(struct node *node)
{
    for (int i = 0; i < 26; i++)
        if (node->children[i])
            destroy(node->children[i]);
    free(node);
}

int main(void)
{
    struct node *root = NULL;
    for (unsigned i = 0; i < 20000; i++) {
        char word[8];
        unsigned value = i * 7919u % 10007u;
        size_t length = 0;
        for (; value > 0 && length < 7; value /= 26)
            word[length++] = (char)('a' + value % 26);
        word[length] = '\0';
        root = insert(root, word);
    }
    printf("%d\n", search(root, 0));
    destroy(root);
    return 0;
}
