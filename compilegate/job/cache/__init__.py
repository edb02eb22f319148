"""The compile cache: retraining runs the same graph again, so compile it once.

A job leaves what its compiler made as one archive in a folder that outlives the job; the next job
with the same key starts from it. docs/compile-cache.md says where the folder comes from
and who may write to it::

    cache = CompileCache(archives, most_bytes, key_here(...), compiler.cache_folder())
    cache.load()                                  # before anything is compiled
    ...                                           # train
    record = cache.keep(lookups, figures, job)    # once everything has succeeded

* `key`: what must be equal for a cache to fit. Pure.
* `here`: the key of a job that runs here. The only module that needs torch.
* `archive`: a compiler's folder as one verified file.
* `cache`: the folder, loading and keeping it, and what the evidence records about both.

The code in an archive gets executed. Digests reveal damage, not forgery: an archive is only as
trustworthy as the folder that it lies in.
"""

from compilegate.job.cache.cache import CacheFolder, ColdFigures, CompileCache, Lookups, discard
from compilegate.job.cache.key import CacheKey

__all__ = ["CacheFolder", "CacheKey", "ColdFigures", "CompileCache", "Lookups", "discard"]
