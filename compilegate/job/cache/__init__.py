"""The compile cache across runs: retraining is the same graph again, so compile it once.

A job that compiled leaves what its compiler made as one archive in a folder that outlives it; the
next job with the same key starts from there. docs/compile-cache.md says where the folder comes from
and who may write to it::

    cache = CompileCache(archives, most_bytes, key_of(...), compiler.cache_folder())
    cache.load()                                  # before anything is compiled
    ...                                           # train
    record = cache.keep(lookups, figures, job)    # once everything has succeeded

* `key`: what has to be equal for a cache to fit. Pure.
* `this_job`: the key of the job that runs here. The only module that needs torch.
* `folder`: where a compiler keeps its results while it works, and which of them are worth keeping.
* `archive`: such a folder as one checked file.
* `cache`: loading and keeping, and what the evidence says of both.

The code in an archive is executed. Digests show damage, not who wrote it: an archive is as
trustworthy as the folder that it lies in.
"""

from compilegate.job.cache.cache import CacheFolder, ColdFigures, CompileCache, Lookups, discard
from compilegate.job.cache.key import CacheKey

__all__ = ["CacheFolder", "CacheKey", "ColdFigures", "CompileCache", "Lookups", "discard"]
