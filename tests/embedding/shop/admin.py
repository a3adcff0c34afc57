"""The project's own pages, written for Django's admin and no other."""

from __future__ import annotations

from django.contrib import admin

from tests.embedding.shop.models import Customer, Order


@admin.register(Order)
class OrderAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # Django’s own takes none when it runs
    list_display = ("customer", "total")
    list_filter = ("total",)
    search_fields = ("customer__email",)
    list_editable = ("total",)


admin.site.register(Customer)
admin.site.site_header = "The Shop"
