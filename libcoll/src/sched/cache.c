/* The schedule cache: a hash from (build function, plan) to a schedule, and a list that remembers which was used last.
 *
 * A program that repeats one call finds it at the head of the list and pays for no hash.
 */
#define HASH_NONFATAL_OOM          1
#define uthash_nonfatal_oom(entry) ((entry)->unhashed = true)

#include "base/error.h"
#include "sched/sched.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>
#include <utlist.h>

/* Everything a schedule may depend on within one communicator (the topology is the communicator's own). Compared as
 * bytes: filled after a memset. */
typedef struct cache_key {
    coll__build_fn build;
    size_t count, element;
    int operation, dtype, op, rank, size, root, arity;
    bool in_place, commutative;
} cache_key_t;

typedef struct cache_entry {
    coll__sched_t sched; /* first: what get() hands out is a pointer to it */
    cache_key_t key;
    unsigned users;
    bool unhashed; /* the hash had no memory for it */
    struct cache_entry *prev, *next;
    UT_hash_handle hh;
    coll__step_t steps[];
} cache_entry_t;

struct coll__sched_cache {
    size_t capacity, count;
    cache_entry_t *table;
    cache_entry_t *recent; /* most recently used first */
    coll__arena_t arena;   /* where schedules are built before they are copied into an entry */
};

coll__sched_cache_t *coll__sched_cache_create(size_t capacity) {
    coll__sched_cache_t *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->capacity = capacity;
    coll__arena_init(&cache->arena, 32 * 1024);
    return cache;
}

static cache_key_t make_key(coll__build_fn build, const coll__plan_t *plan) {
    cache_key_t key;
    memset(&key, 0, sizeof key);
    key.build = build;
    key.count = plan->count;
    key.element = plan->element;
    key.operation = (int)plan->operation;
    key.dtype = (int)plan->dtype;
    key.op = plan->op;
    key.rank = plan->rank;
    key.size = plan->size;
    key.root = plan->root;
    key.arity = plan->arity;
    key.in_place = plan->in_place;
    key.commutative = plan->commutative;
    return key;
}

static void drop(coll__sched_cache_t *cache, cache_entry_t *entry) {
    HASH_DEL(cache->table, entry);
    DL_DELETE(cache->recent, entry);
    cache->count--;
    free(entry);
}

/* Makes room for one more. Entries in use stay, so the cache may be larger than its capacity for a while. */
static void make_room(coll__sched_cache_t *cache) {
    cache_entry_t *entry = cache->recent ? cache->recent->prev : NULL; /* utlist: the head's prev is the tail */
    while (entry && cache->count >= cache->capacity) {
        cache_entry_t *newer = entry == cache->recent ? NULL : entry->prev;
        if (entry->users == 0)
            drop(cache, entry);
        entry = newer;
    }
}

static int build_entry(coll__sched_cache_t *cache, const cache_key_t *key, const coll__plan_t *plan,
                       cache_entry_t **built) {
    coll__builder_t builder;
    coll__sched_t sched;
    coll__arena_reset(&cache->arena);
    coll__build_begin(&builder, &cache->arena);
    key->build(plan, &builder);
    int status = coll__build_finish(&builder, &sched);
    if (status != 0)
        return status;

    size_t steps_bytes = (size_t)sched.step_count * sizeof *sched.steps;
    cache_entry_t *entry = malloc(sizeof *entry + steps_bytes);
    if (!entry)
        return coll__error(COLL_ERR_MEMORY, "out of memory for a schedule of %d steps", sched.step_count);
    memset(entry, 0, sizeof *entry);
    entry->sched = sched;
    entry->sched.steps = entry->steps;
    if (steps_bytes)
        memcpy(entry->steps, sched.steps, steps_bytes);
    entry->key = *key;

    make_room(cache);
    HASH_ADD(hh, cache->table, key, sizeof entry->key, entry);
    if (entry->unhashed) {
        free(entry);
        return coll__error(COLL_ERR_MEMORY, "out of memory for the schedule cache");
    }
    DL_PREPEND(cache->recent, entry);
    cache->count++;
    *built = entry;
    return 0;
}

int coll__sched_cache_get(coll__sched_cache_t *cache, coll__build_fn build, const coll__plan_t *plan,
                          const coll__sched_t **sched) {
    cache_key_t key = make_key(build, plan);
    cache_entry_t *entry = cache->recent;
    if (!entry || memcmp(&entry->key, &key, sizeof key) != 0) {
        HASH_FIND(hh, cache->table, &key, sizeof key, entry);
        if (entry) {
            DL_DELETE(cache->recent, entry);
            DL_PREPEND(cache->recent, entry);
        } else {
            int status = build_entry(cache, &key, plan, &entry);
            if (status != 0)
                return status;
        }
    }
    entry->users++;
    *sched = &entry->sched;
    return 0;
}

void coll__sched_cache_release(coll__sched_cache_t *cache, const coll__sched_t *sched) {
    (void)cache;
    cache_entry_t *entry = (cache_entry_t *)((char *)(uintptr_t)sched - offsetof(cache_entry_t, sched));
    entry->users--;
}

void coll__sched_cache_free(coll__sched_cache_t *cache) {
    if (!cache)
        return;
    while (cache->recent)
        drop(cache, cache->recent);
    coll__arena_free(&cache->arena);
    free(cache);
}
