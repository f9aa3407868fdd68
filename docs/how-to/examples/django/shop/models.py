from django.db import models


class Bill(models.Model):
    tenant = models.TextField(primary_key=True)
    token = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.tenant}, by token {self.token}"
