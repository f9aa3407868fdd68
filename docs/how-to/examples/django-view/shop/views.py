from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from lockfast.guards.django import guarded, seal
from shop.locks import locked
from shop.models import Invoice


@transaction.non_atomic_requests  # the transaction must end before the lock is released
@require_POST
def pay(_: HttpRequest, pk: int) -> JsonResponse:
    with locked(f"invoice:{pk}") as lease:
        seal(lease)  # before the first read
        with guarded(lease):  # transaction.atomic(), which rejects a stale lock
            invoice, _created = Invoice.objects.get_or_create(pk=pk)
            invoice.payments += 1
            invoice.save()
    return JsonResponse({"payments": invoice.payments})
