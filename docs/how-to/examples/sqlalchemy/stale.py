from accounts import Account, client, deposit, guard, sessions

import lockfast

lock = client.lock("account:1", ttl=30)
lease = lock.acquire()
client.revoke(lock.holders()[0], "as if this process had been paused for 30 s")
deposit(1, 10)  # meanwhile, another process has the lock
try:
    with sessions() as session, guard.transaction(session, lease):
        session.get_one(Account, 1).balance = 0
except lockfast.StaleToken as error:
    print("rejected:", error)
print("balance:", deposit(1, 0))
