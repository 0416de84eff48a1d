"""A store on object storage: objects, and a manifest that conditional puts replace.

Whatever asks for objects raises `StoreError` where there is no such bucket or object, or access is
refused, and `UnavailableError` where the server does not answer, or a folder has no room.
"""
