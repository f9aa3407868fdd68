from django.db import models

from lockfast.guards.django import Fenced


class Invoice(Fenced, models.Model):
    fence = "invoice:{pk}"  # save() raises Unguarded outside of guarded() with this lock
    payments = models.IntegerField(default=0)

    def __str__(self) -> str:
        return f"invoice {self.pk}"
