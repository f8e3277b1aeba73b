/* SPDX-License-Identifier: MIT
 *
 * glib_slices.c: GLib's lists, queues, trees and hash tables, whose nodes are slices.
 *
 * GLib 2.74 takes slices from caches of its own; G_SLICE=always-malloc makes each a malloc. Built
 * by setup/glib.sh, not with the rest: only the study needs GLib's headers.
 */
#include <glib.h>

enum { ROUNDS = 25, ITEMS = 20000 };

static gint compare(gconstpointer a, gconstpointer b)
{
    return GPOINTER_TO_INT(a) - GPOINTER_TO_INT(b);
}

/* A list that is sorted, a queue that is filled and half emptied. */
static guint64 lists(guint32 seed)
{
    guint64 sum = 0;
    GList *list = NULL;
    GQueue *queue = g_queue_new();
    for (guint32 i = 0; i < ITEMS; i++) {
        gpointer item = GINT_TO_POINTER(i * 2654435761u % 1000003 + seed);
        list = g_list_prepend(list, item);
        g_queue_push_tail(queue, item);
        if (i % 2)
            sum += GPOINTER_TO_INT(g_queue_pop_head(queue));
    }
    list = g_list_sort(list, compare);
    for (GList *at = list; at; at = at->next->next)
        sum = sum * 31 + GPOINTER_TO_INT(at->data);
    g_list_free(list);
    g_queue_free(queue);
    return sum;
}

static guint64 tables(guint32 seed)
{
    GTree *tree = g_tree_new(compare);
    GHashTable *table =
        g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, (GDestroyNotify)g_slist_free);
    for (guint32 i = 0; i < ITEMS; i++) {
        guint32 key = i * 2654435761u % 5003 + seed;
        g_tree_insert(tree, GINT_TO_POINTER(key + 1), GINT_TO_POINTER(i));
        GSList *old = g_hash_table_lookup(table, GINT_TO_POINTER(key));
        GSList *copy = g_slist_prepend(g_slist_copy(old), GINT_TO_POINTER(i));
        g_hash_table_replace(table, GINT_TO_POINTER(key), copy);
        if (i % 3 == 0)
            g_tree_remove(tree, GINT_TO_POINTER(key + 1));
    }
    guint64 sum = (guint64)g_tree_nnodes(tree) * 31 + g_hash_table_size(table);
    g_hash_table_destroy(table);
    g_tree_destroy(tree);
    return sum;
}

int main(void)
{
    guint64 sum = 0;
    for (guint32 round = 0; round < ROUNDS; round++)
        sum = sum * 17 + lists(round) + tables(round);
    g_print("%" G_GUINT64_FORMAT "\n", sum);
    return 0;
}
