"""The users of a project that is not ours: known by their mail address."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models


class Customer(AbstractUser):
    email = models.EmailField(unique=True)

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = ["username"]


class Order(models.Model):
    customer = models.ForeignKey(Customer, models.CASCADE)
    total = models.IntegerField()
    objects: ClassVar[models.Manager[Order]] = models.Manager()

    def __str__(self) -> str:
        return f"{self.customer}: {self.total}"
