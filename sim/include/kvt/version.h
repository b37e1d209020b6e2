/* kvt/version.h -- which kvtide this is, and where its data was to be installed. */
#ifndef KVT_VERSION_H
#define KVT_VERSION_H

#include "kvt/base.h"

KVT_BEGIN_DECLS

/* The only place that states the version: SConstruct reads it from here. */
#define KVT_VERSION "0.3.0"

/* The version, and the commit as `git describe --always --dirty` named it at
 * build time ("unknown" when built outside a checkout). Never NULL or freed. */
const char *kvt_version(void);
const char *kvt_commit(void);

/* PREFIX/share/kvt of the build: models, scenarios and schemas, once
 * installed. Whoever looks for data asks here last, after KVT_DATA and after
 * ../share/kvt beside the running program. */
const char *kvt_installed_data_dir(void);

KVT_END_DECLS
#endif
