/* keys.h -- what each key of a scenario is, declared once. */
#ifndef KVT_SCENARIO_KEYS_H
#define KVT_SCENARIO_KEYS_H

#include "kvt/plugin.h"

#define KVT_SCENARIO_SCHEMA "kvtide/scenario/1"
#define KVT_RESULT_SCHEMA "kvtide/result/1"

enum kvt_key_type {
    KVT_KEY_COUNT, /* a whole number in [minimum, maximum] */
    KVT_KEY_REAL,  /* a finite number in [minimum, maximum] */
    KVT_KEY_BOOL,
    KVT_KEY_TEXT,    /* of [minimum, maximum] bytes */
    KVT_KEY_CHOICE,  /* one of choices */
    KVT_KEY_NUMBERS, /* a list of finite numbers, each in [minimum, maximum]; one alone is a list */
    KVT_KEY_RECORDS, /* a list of objects of the numbers named in choices */
    KVT_KEY_HOT,     /* a count of tokens, or "2k": so many times top_k */
    KVT_KEY_EXTENDS, /* a name or a list of names; gone from the tree in force */
    KVT_KEY_FILE,    /* a shipped name, a path, or {"base": one of these, ...changes} */
    KVT_KEY_OBJECT,  /* of members */
    KVT_KEY_LIST,    /* of objects of members, at most maximum */
    KVT_KEY_PLUGIN   /* an object: a plug-in's name, its parameters, and members */
};

struct kvt_key {
    const char *name;
    const char *help;
    enum kvt_key_type type;
    double minimum, maximum;
    const char *choices; /* "a|b" */
    const char *word;    /* texts that stand in the value's place: "auto", "a|b" */
    const char *dflt;    /* JSON; NULL: absent unless given. PLUGIN: the plug-in's name */
    bool required;       /* OBJECT: absent unless given, without the defaults of its members */
    bool takes_list;     /* OBJECT: a list of such objects as well, at most maximum */
    bool is_path;        /* TEXT: of a file, relative to the file that gives it */
    bool is_name;        /* TEXT: a shipped name of `folder`, or a path as above */

    const char *refused; /* NULL, or why this version refuses the key */

    /* The key exists only while its neighbour when_key is one of `when` ("a|b").
     * A key that others name as when_key is a switch. */
    const char *when_key, *when;
    bool is_switch;

    /* [KVT_IDLE_MAX] what takes the key's effect away, or NULL. Judged when all layers are applied:
     * it stands elsewhere than the key. */
    const struct kvt_idle *idle;

    const char *excludes; /* neighbours that leave when this key is set: "a|b" */

    const struct kvt_key *members; /* OBJECT, LIST, PLUGIN: up to a key without a name */

    enum kvt_plugin_kind kind; /* PLUGIN */
    const char *name_key;      /* PLUGIN: which member names it */
    bool takes_shorthand;      /* PLUGIN: {"closed": {...}} chooses closed */
    const char *folder;        /* FILE, names: of shipped ones, under the data folder */
    const char *noun;          /* FILE: "model" */

    /* Does the key go with this plug-in of the object it is in? NULL: always. */
    bool (*belongs)(const struct kvt_plugin_info *info);
    const char *belongs_why; /* the sentence when not */
};

/* Of `for (member = key->members; kvt_key_is_one(member); member++)`: not yet behind the last. */
static inline bool kvt_key_is_one(const struct kvt_key *member)
{
    return member != NULL && member->name != NULL;
}

/* The whole scenario: an object. */
const struct kvt_key *kvt_keys_root(void);

/* Member by name, NULL when there is none. */
const struct kvt_key *kvt_key_member(const struct kvt_key *key, const char *name);

/* A plug-in's parameter, seen as a key. */
struct kvt_key kvt_key_of_param(const struct kvt_param_spec *spec);
const struct kvt_param_spec *kvt_param_find(const struct kvt_plugin_info *info, const char *name);

/* Is `name` one of "a|b|c"? Which one: its index, or -1. */
int kvt_choice_index(const char *choices, const char *name);
size_t kvt_choice_count(const char *choices);
/* Choice i, borrowed, and its length. */
const char *kvt_choice_at(const char *choices, size_t i, size_t *length);

/* "1 to 4096", "a | b", or "". Into out, which is returned. */
const char *kvt_key_range(const struct kvt_key *key, char *out, size_t out_bytes);

/* Another engine's name for something: ours, or NULL. */
const char *kvt_engine_key(const char *name);

#endif
