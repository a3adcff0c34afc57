"""Sign-in to the admin at an OpenID Connect provider (decision 74). It belongs to this site, not to `tools_app`.

`provider` has allauth's classes with the checks of this hub, `people` turns claims into users and roles, `views` has
the two pages: to the provider, and back. Nothing here is imported by `runmcp`.
"""
