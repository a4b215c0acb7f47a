/* The heap: page ranges for large pieces, by first fit over a list of free ranges; small pieces in slabs of one size
 * each. */
#include "node/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "base/error.h"
#include "base/status.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

enum { SMALLEST = 64, CLASSES = 11, LARGE = SMALLEST << (CLASSES - 1) /* 64 KiB */, SLAB = 1 << 20 };

/* A range of pages that is not handed out; sorted by offset. */
struct range {
    size_t offset, bytes;
    struct range *prev, *next;
};

/* A piece that is handed out, or a free one of a slab. */
struct piece {
    size_t offset; /* the key */
    size_t bytes;  /* reserved for it */
    int class;     /* of its slab, -1: it has pages of its own */
    bool retained; /* not to be used again */
    struct piece *next;
    UT_hash_handle hh;
};

/* The heap of a process that this one was forked from. It stays mapped, so that its arrays can be read and written here
 * too, but only its owner hands out and frees. */
struct inherited {
    const char *base;
    size_t capacity;
    struct inherited *next;
};

static struct {
    pthread_mutex_t lock;
    bool tried, watches_forks;
    int fd;
    _Atomic(char *) base; /* set last: coll__heap_find() reads it without the lock */
    size_t capacity, page, in_use;
    struct range *free_ranges;
    struct piece *pieces; /* handed out, by offset */
    struct piece *free_pieces[CLASSES];
    struct inherited *bequest; /* this heap, for a child */
    struct inherited *inherited;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static size_t round_up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

static void before_fork(void) {
    pthread_mutex_lock(&heap.lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&heap.lock);
}

/* The child begins without a heap; the parent's bookkeeping, of which the copy says less and less, is left alone. */
static void after_fork_in_child(void) {
    if (heap.bequest) {
        LL_PREPEND(heap.inherited, heap.bequest);
        heap.bequest = NULL;
        close(heap.fd);
        heap.fd = -1;
        heap.base = NULL;
        heap.in_use = 0;
        heap.free_ranges = NULL;
        heap.pieces = NULL;
        memset(heap.free_pieces, 0, sizeof heap.free_pieces);
    }
    heap.tried = false;
    pthread_mutex_unlock(&heap.lock);
}

/* As large as the machine's memory: only an address range, no memory. */
static int make_heap(void) {
    if (!heap.watches_forks && pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
        return -1;
    heap.watches_forks = true;
    struct sysinfo info;
    if (sysinfo(&info) != 0)
        return -1;
    heap.page = (size_t)sysconf(_SC_PAGESIZE);
    heap.capacity = round_up((size_t)info.totalram * info.mem_unit, SLAB);
    int fd = memfd_create("libcoll-heap", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create("libcoll-heap", MFD_CLOEXEC); /* older than Linux 6.3 */
    if (fd < 0)
        return -1;
    struct range *all = malloc(sizeof *all);
    struct inherited *bequest = malloc(sizeof *bequest);
    void *base = MAP_FAILED;
    if (all && bequest && ftruncate(fd, (off_t)heap.capacity) == 0)
        base = mmap(NULL, heap.capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        free(all);
        free(bequest);
        close(fd);
        return -1;
    }
    *all = (struct range){.offset = 0, .bytes = heap.capacity};
    *bequest = (struct inherited){.base = base, .capacity = heap.capacity};
    heap.bequest = bequest;
    DL_APPEND(heap.free_ranges, all);
    heap.fd = fd;
    atomic_store_explicit(&heap.base, base, memory_order_release);
    return 0;
}

/* [locked] */
static bool have_heap(void) {
    if (!heap.tried)
        make_heap();
    heap.tried = true;
    return heap.fd >= 0;
}

/* ---- pages ---- */

static int take_pages(size_t bytes, size_t *offset) {
    struct range *range;
    DL_FOREACH(heap.free_ranges, range) {
        if (range->bytes >= bytes)
            break;
    }
    if (!range || fallocate(heap.fd, 0, (off_t)range->offset, (off_t)bytes) != 0)
        return coll__error(COLL_ERR_MEMORY, "out of memory for %zu bytes of symmetric memory: %s", bytes,
                           range ? strerror(errno) : "more than this machine has");
    *offset = range->offset;
    range->offset += bytes;
    range->bytes -= bytes;
    if (range->bytes == 0) {
        DL_DELETE(heap.free_ranges, range);
        free(range);
    }
    return 0;
}

/* The pages go back to the system, the range to its neighbours. If there is no memory for a new range it is lost: only
 * addresses. */
static void give_pages(size_t offset, size_t bytes) {
    int punched = fallocate(heap.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes);
    (void)punched; /* where it cannot be done the pages stay until the process ends */
    struct range *after, *before = NULL;
    DL_FOREACH(heap.free_ranges, after) {
        if (after->offset > offset)
            break;
        before = after;
    }
    if (before && before->offset + before->bytes == offset) {
        before->bytes += bytes;
    } else if (after && offset + bytes == after->offset) {
        after->offset = offset;
        after->bytes += bytes;
        return;
    } else {
        struct range *made = malloc(sizeof *made);
        if (!made)
            return;
        *made = (struct range){.offset = offset, .bytes = bytes};
        if (after)
            DL_PREPEND_ELEM(heap.free_ranges, after, made);
        else
            DL_APPEND(heap.free_ranges, made);
        return;
    }
    if (after && before->offset + before->bytes == after->offset) {
        before->bytes += after->bytes;
        DL_DELETE(heap.free_ranges, after);
        free(after);
    }
}

/* ---- pieces ---- */

static int class_of(size_t bytes) {
    int class = 0;
    while ((size_t)SMALLEST << class < bytes)
        class ++;
    return class;
}

/* A slab's pieces join the free ones of their class. */
static int make_slab(int class) {
    size_t offset, bytes = (size_t)SMALLEST << class;
    int status = take_pages(SLAB, &offset);
    if (status < 0)
        return status;
    for (size_t at = 0; at < SLAB; at += bytes) {
        struct piece *piece = malloc(sizeof *piece);
        if (!piece)
            break; /* a smaller slab */
        *piece = (struct piece){.offset = offset + at, .bytes = bytes, .class = class};
        LL_PREPEND(heap.free_pieces[class], piece);
    }
    return heap.free_pieces[class] ? 0 : coll__error(COLL_ERR_MEMORY, "out of memory");
}

static int take_piece(size_t bytes, struct piece **piece) {
    if (bytes < LARGE) {
        int class = class_of(bytes);
        int status = heap.free_pieces[class] ? 0 : make_slab(class);
        if (status < 0)
            return status;
        *piece = heap.free_pieces[class];
        LL_DELETE(heap.free_pieces[class], *piece);
        return 0;
    }
    size_t whole = round_up(bytes, heap.page);
    struct piece *made = malloc(sizeof *made);
    if (!made)
        return coll__error(COLL_ERR_MEMORY, "out of memory");
    *made = (struct piece){.bytes = whole, .class = -1};
    int status = take_pages(whole, &made->offset);
    if (status < 0) {
        free(made);
        return status;
    }
    *piece = made;
    return 0;
}

int coll__heap_alloc(size_t bytes, void **memory) {
    struct piece *piece;
    int status;
    pthread_mutex_lock(&heap.lock);
    if (!have_heap())
        status = coll__error(COLL_ERR_UNSUPPORTED, "this system has no memfd to share memory by");
    else if (bytes > heap.capacity)
        status = coll__error(COLL_ERR_MEMORY, "%zu bytes of symmetric memory are more than this machine has", bytes);
    else
        status = take_piece(bytes ? bytes : 1, &piece);
    if (status == 0) {
        heap.in_use += piece->bytes;
        HASH_ADD(hh, heap.pieces, offset, sizeof piece->offset, piece);
        *memory = heap.base + piece->offset;
    }
    pthread_mutex_unlock(&heap.lock);
    return status;
}

static bool is_inherited(const void *memory) {
    const struct inherited *heap_of_parent;
    LL_FOREACH(heap.inherited, heap_of_parent) {
        if ((uintptr_t)memory - (uintptr_t)heap_of_parent->base < heap_of_parent->capacity)
            return true;
    }
    return false;
}

bool coll__heap_free(void *memory) {
    uint64_t place;
    if (!coll__heap_find(memory, 1, &place))
        return is_inherited(memory);
    size_t offset = place;
    struct piece *piece;
    pthread_mutex_lock(&heap.lock);
    HASH_FIND(hh, heap.pieces, &offset, sizeof offset, piece);
    if (piece) {
        HASH_DELETE(hh, heap.pieces, piece);
        heap.in_use -= piece->bytes;
        if (piece->retained) {
            free(piece); /* its memory is left alone */
        } else if (piece->class >= 0) {
            LL_PREPEND(heap.free_pieces[piece->class], piece);
        } else {
            give_pages(piece->offset, piece->bytes);
            free(piece);
        }
    }
    bool found = piece != NULL;
    pthread_mutex_unlock(&heap.lock);
    return found;
}

void coll__heap_retain(const void *memory) {
    uint64_t offset;
    if (!coll__heap_find(memory, 1, &offset))
        return;
    struct piece *piece, *next;
    pthread_mutex_lock(&heap.lock);
    HASH_ITER(hh, heap.pieces, piece, next) {
        if (piece->offset <= offset && offset < piece->offset + piece->bytes)
            piece->retained = true;
    }
    pthread_mutex_unlock(&heap.lock);
}

int coll__heap_fd(size_t *bytes) {
    pthread_mutex_lock(&heap.lock);
    int fd = have_heap() ? heap.fd : -1;
    *bytes = heap.capacity;
    pthread_mutex_unlock(&heap.lock);
    return fd;
}

bool coll__heap_find(const void *memory, size_t bytes, uint64_t *offset) {
    const char *at = memory, *base = atomic_load_explicit(&heap.base, memory_order_acquire);
    if (!base || at < base || bytes > heap.capacity || (size_t)(at - base) > heap.capacity - bytes)
        return false;
    *offset = (uint64_t)(at - base);
    return true;
}

size_t coll__heap_in_use(void) {
    pthread_mutex_lock(&heap.lock);
    size_t bytes = heap.in_use;
    pthread_mutex_unlock(&heap.lock);
    return bytes;
}
